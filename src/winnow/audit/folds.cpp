#include "winnow/audit/folds.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "winnow/base/error.h"
#include "winnow/base/random.h"
#include "winnow/method/audit/audit/judging.h"

namespace winnow {
namespace {

void deal_samples(Stream& stream, const std::vector<ClientData>& clients, std::int64_t classes,
                  Folds& folds) {
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> by_class(
      static_cast<std::size_t>(classes));
  for (std::size_t client = 0; client < clients.size(); ++client) {
    folds.of[client].resize(clients[client].samples.size());
    for (std::size_t i = 0; i < clients[client].given.size(); ++i) {
      by_class[static_cast<std::size_t>(clients[client].given[i])].emplace_back(client, i);
    }
  }
  // One count through all classes: small classes do not all begin with the same fold.
  std::int64_t next = 0;
  for (auto& places : by_class) {
    stream.shuffle(std::span(places));
    for (const auto& [client, i] : places) {
      folds.of[client][i] = next++ % folds.count;
    }
  }
}

}  // namespace

Folds make_folds(const std::vector<ClientData>& clients, std::int64_t classes, std::int64_t count,
                 std::uint64_t seed, std::int64_t repetition) {
  std::vector<std::int64_t> holders;
  std::size_t samples = 0;
  for (std::size_t client = 0; client < clients.size(); ++client) {
    samples += clients[client].samples.size();
    if (!clients[client].samples.empty()) {
      holders.push_back(static_cast<std::int64_t>(client));
    }
  }
  if (samples < static_cast<std::size_t>(2 * count)) {
    throw Error(ErrorKind::data, fmt::format("{} samples are too few for {} folds", samples, count),
                "lower --folds, or audit more data");
  }
  Folds folds{.over_clients = std::ssize(holders) >= count, .count = count};
  folds.of.resize(clients.size());
  folds.of_clients.assign(clients.size(), -1);
  if (folds.over_clients) {
    for (const auto& [client, fold] : audit::deal_folds(holders, count, seed, repetition)) {
      const auto at = static_cast<std::size_t>(client);
      folds.of_clients[at] = fold;
      folds.of[at].assign(clients[at].samples.size(), fold);
    }
  } else {
    Stream stream(seed, "audit folds", repetition);
    deal_samples(stream, clients, classes, folds);
  }
  return folds;
}

std::vector<ClientData> without_fold(const std::vector<ClientData>& clients, const Folds& folds,
                                     std::int64_t fold, std::int64_t parts) {
  std::vector<ClientData> left;
  for (std::size_t client = 0; client < clients.size(); ++client) {
    ClientData kept;
    for (std::size_t i = 0; i < clients[client].samples.size(); ++i) {
      if (folds.of[client][i] != fold) {
        kept.samples.push_back(clients[client].samples[i]);
        kept.given.push_back(clients[client].given[i]);
      }
    }
    if (!kept.samples.empty()) {
      left.push_back(std::move(kept));
    }
  }
  if (folds.over_clients || left.size() != 1) {
    return left;
  }
  const ClientData whole = std::move(left.front());
  left.assign(static_cast<std::size_t>(std::min<std::int64_t>(parts, std::ssize(whole.samples))),
              {});
  for (std::size_t i = 0; i < whole.samples.size(); ++i) {
    ClientData& part = left[i % left.size()];
    part.samples.push_back(whole.samples[i]);
    part.given.push_back(whole.given[i]);
  }
  return left;
}

}  // namespace winnow

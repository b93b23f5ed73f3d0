#include "winnow/sweep/report_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "winnow/base/error.h"

namespace winnow {
namespace {

constexpr std::int64_t kLastClient = 9'999'999;  // a federation has at most ten million clients
constexpr std::size_t kMostTimes = 1000;
constexpr std::size_t kMostNorms = 100'000;
constexpr std::size_t kSplitCounts = 4;

void check_client(const std::string& digits, const CheckedJson& value) {
  std::int64_t client = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), client);
  if (client < 0 || client > kLastClient || std::to_string(client) != digits) {
    throw Error(ErrorKind::run, fmt::format("{}: expected the number of a client", value.name()));
  }
}

void check_count(const CheckedJson& list, std::size_t count, const char* what) {
  if (!list.json().is_array() || list.json().size() != count) {
    throw Error(ErrorKind::run, fmt::format("{}: expected {} {}", list.name(), count, what));
  }
}

void check_series(const CheckedJson& times) {
  const std::vector<CheckedJson> all = times.elements();
  if (all.size() > kMostTimes) {
    throw Error(ErrorKind::run, fmt::format("{}: expected at most {} entries, not {}", times.name(),
                                            kMostTimes, all.size()));
  }
  for (const CheckedJson& scores : all) {
    for (const auto& [client, value] : scores.at("by_client").members()) {
      check_client(client, value);
      value.number();
    }
  }
}

void check_likeness(const CheckedJson& likeness) {
  likeness.at("of").text();
  const std::vector<CheckedJson> clients = likeness.at("clients").elements();
  likeness.at("known").whole(static_cast<std::int64_t>(clients.size()), kLastClient + 1);
  for (const CheckedJson& client : clients) {
    client.whole(0, kLastClient);
  }
  const CheckedJson values = likeness.at("values");
  check_count(values, clients.size(), "rows");
  for (const CheckedJson& row : values.elements()) {
    check_count(row, clients.size(), "numbers");
    for (const CheckedJson& value : row.elements()) {
      value.number(-1.0, 1.0);
    }
  }
}

void check_square(const CheckedJson& square) {
  const std::vector<CheckedJson> rows = square.elements();
  for (const CheckedJson& row : rows) {
    check_count(row, rows.size(), "counts");
    for (const CheckedJson& count : row.elements()) {
      count.count();
    }
  }
}

}  // namespace

void check_findings(const Json& findings) {
  const CheckedJson all(findings, "");
  if (const auto series = all.find("series")) {
    for (const auto& [name, times] : series->members()) {
      check_series(times);
    }
  }
  if (const auto likeness = all.find("likeness")) {
    check_likeness(*likeness);
  }
}

void check_labels(const Json& event) {
  const CheckedJson labels(event, "");
  labels.at("name").text();
  labels.at("round").count();
  for (const auto& [client, level] : labels.at("levels").members()) {
    check_client(client, level);
    level.number(0.0, 1.0);
  }
  for (const auto& [client, split] : labels.at("splits").members()) {
    check_client(client, split);
    check_count(split, kSplitCounts, "counts");
    for (const CheckedJson& count : split.elements()) {
      count.count();
    }
  }
  if (const auto confusions = labels.find("confusions")) {
    for (const auto& [client, square] : confusions->members()) {
      check_client(client, square);
      check_square(square);
    }
  }
}

void NormCollector::add(const Json& event) {
  const auto norms = CheckedJson(event, "").find("norms");
  if (!norms || !norms->json().is_array()) {
    return;  // a method outside of this tree may note something else under that name
  }
  for (const CheckedJson& entry : norms->elements()) {
    const std::int64_t client = entry.at("client").whole(0, kLastClient);
    std::vector<double>& own = norms_[client];
    own.clear();
    for (const CheckedJson& norm : entry.at("norms").elements()) {
      if (!norm.is_null()) {  // one that was not finite
        own.push_back(norm.number(0.0));
      }
    }
  }
}

Json NormCollector::result() const {
  if (norms_.empty()) {
    return nullptr;
  }
  std::size_t total = 0;
  for (const auto& [client, own] : norms_) {
    total += own.size();
  }
  const bool thin = total > kMostNorms;
  const std::size_t most = std::max<std::size_t>(2, kMostNorms / norms_.size());
  Json by_client = Json::object();
  for (const auto& [client, own] : norms_) {
    Json kept = Json::array();
    const std::size_t count = thin ? std::min(most, own.size()) : own.size();
    for (std::size_t i = 0; i < count; ++i) {
      kept.push_back(own[count < 2 ? i : i * (own.size() - 1) / (count - 1)]);
    }
    by_client[std::to_string(client)] = std::move(kept);
  }
  return {{"thinned", thin}, {"by_client", std::move(by_client)}};
}

}  // namespace winnow

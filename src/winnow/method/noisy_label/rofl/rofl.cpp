#include "winnow/method/noisy_label/rofl/rofl.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/method/noisy_label/rofl/client.h"
#include "winnow/method/round.h"

namespace winnow {
namespace {

constexpr const char* kCentroids = "centroids";

// `width` of the centroids is 0 as long as it is not known.
void require_size(std::int64_t client, const std::vector<float>& centroids, std::int64_t classes,
                  std::int64_t width) {
  const auto size = std::ssize(centroids);
  const bool fits = width > 0 ? size == classes * width : size > 0 && size % classes == 0;
  if (!fits) {
    throw Error(ErrorKind::peer,
                fmt::format("client {} sent {} centroid values, expected {}", client, size,
                            width > 0 ? fmt::format("{} classes of {}", classes, width)
                                      : fmt::format("a multiple of {} classes", classes)));
  }
}

}  // namespace

std::unique_ptr<ClientSide> Rofl::client_side() const {
  return std::make_unique<rofl::Client>(options_);
}

std::vector<Exchange> Rofl::exchanges(const Setting& setting) const {
  const std::int64_t values = setting.classes * setting.features;
  return {
      {"train",
       {field::round(), field::global_model(),
        field::floats(kCentroids, "the mean features of each class over all clients; none at first",
                      Length::up_to(values, "C d"))},
       "train_done",
       {field::trained_model().summed(Weighting::equal), field::samples(),
        field::floats(kCentroids, "the mean features of its samples of each class",
                      Length::exactly(values, "C d"))
            .any_number()}}};
}

void Rofl::play(std::int64_t number, Server& server) {
  Round round(number, server);
  round.chosen = round.draw();
  round.notes["stage"] = number < options_.pseudo_round ? "given labels" : "pseudo-labels";
  Message task = round.task("train").set(kCentroids, centroids_);
  const std::int64_t classes = round.setting.classes;
  std::vector<float> known = centroids_;
  std::optional<rofl::CentroidMean> centroids;
  const auto hear = [&](std::int64_t client, const Message& numbers) {
    const auto& own = numbers.get<std::vector<float>>(kCentroids);
    require_size(client, own, classes, std::ssize(known) / classes);
    known.resize(own.size(), 0.0F);
    if (!centroids) {
      centroids.emplace(known, classes);
    }
    centroids->add(own);
    return true;
  };
  const auto same = [&](std::int64_t) { return task; };
  if (round.by_sums()) {
    const Sums sums =
        round.ask_for_sums(round.chosen, same, exchanges(round.setting).front().answers, hear);
    if (round.note_replies()) {
      round.global = sums.mean("model");
      centroids_ = centroids->finish();
    }
    return;
  }
  WeightedMean plain;
  WeightedMean by_samples;
  round.ask(round.chosen, same, exchanges(round.setting),
            [&](std::int64_t client, const Message& reply) {
              hear(client, reply);
              const auto& model = reply.get<State>("model");
              plain.add(model, 1.0);
              by_samples.add(model, static_cast<double>(reply.get<std::uint32_t>("samples")));
            });
  if (!round.note_replies()) {
    return;
  }
  State next = by_samples.finish();  // running statistics (spec: baselines 0.1)
  next.parameters().copy_(plain.finish().parameters());
  round.global = next;
  centroids_ = centroids->finish();
}

void Rofl::save(Archive& archive) const {
  archive.put(kCentroids, centroids_.empty() ? at::Tensor() : at::tensor(centroids_));
}

void Rofl::load(const Archive& archive) {
  centroids_.clear();
  const auto saved = archive.tensors.find(kCentroids);
  if (saved != archive.tensors.end()) {
    const std::int64_t size = saved->second.numel();
    const at::Tensor values = archive.tensor(kCentroids, at::kFloat, {size}).cpu().contiguous();
    const std::int64_t expected = archive.bounds.classes * archive.bounds.features;
    if (expected > 0 && size != expected) {
      throw Error(ErrorKind::run, fmt::format("tensor '{}' holds {} values, expected {}",
                                              kCentroids, size, expected));
    }
    centroids_.assign(values.data_ptr<float>(), values.data_ptr<float>() + size);
  }
}

MethodInfo rofl_info() {
  return {.name = "rofl",
          .group = "noisy-label",
          .summary = "small-loss samples, shared class centroids, pseudo-labels",
          .make = [] { return std::make_unique<Rofl>(); },
          .smoke = Json::object(
              {{"rounds", 4}, {"method.pseudo_round", 2}, {"method.forget_rounds", 2}})};
}

}  // namespace winnow

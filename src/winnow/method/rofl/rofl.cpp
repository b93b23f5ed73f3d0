#include "winnow/method/rofl/rofl.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/selection.h"
#include "winnow/method/base_method.h"
#include "winnow/method/rofl/client.h"

namespace winnow {
namespace {

constexpr const char* kCentroids = "centroids";

bool all_finite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

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

std::vector<Schema> Rofl::schemas() const {
  return {
      {"train",
       {{"round", FieldType::u32}, {"model", FieldType::state}, {kCentroids, FieldType::f32s}}},
      {"train_done",
       {{"model", FieldType::state}, {"samples", FieldType::u32}, {kCentroids, FieldType::f32s}}}};
}

void Rofl::play(std::int64_t round, Server& server) {
  const std::vector<std::int64_t> pool = selectable_clients(server.fleet);
  const std::vector<std::int64_t> chosen = select_uniform(
      pool, participants(server.setting.fraction, std::ssize(pool)), server.setting.seed, round);
  server.notes["stage"] = round < options_.pseudo_round ? "given labels" : "pseudo-labels";
  const Message task = Message("train")
                           .set("round", static_cast<std::uint32_t>(round))
                           .set("model", server.global)
                           .set(kCentroids, centroids_);
  std::vector<Order> orders;
  orders.reserve(chosen.size());
  for (const std::int64_t client : chosen) {
    orders.push_back({client, task});
  }
  const std::int64_t classes = server.setting.classes;
  std::vector<float> known = centroids_;
  std::optional<rofl::CentroidMean> centroids;
  WeightedMean plain;
  WeightedMean by_samples;
  std::vector<std::int64_t> rejected;
  server.fleet.ask(orders, [&](std::int64_t client, const Message& reply) {
    const auto& own = reply.get<std::vector<float>>(kCentroids);
    require_size(client, own, classes, std::ssize(known) / classes);
    const auto& model = reply.get<State>("model");
    if (!all_finite(model) || !all_finite(own)) {
      rejected.push_back(client);
      return;
    }
    known.resize(own.size(), 0.0F);
    if (!centroids) {
      centroids.emplace(known, classes);
    }
    centroids->add(own);
    plain.add(model, 1.0);
    by_samples.add(model, static_cast<double>(reply.get<std::uint32_t>("samples")));
  });
  note_replies(round, chosen, rejected, server.notes);
  State next = by_samples.finish();  // running statistics (spec: baselines 0.1)
  next.parameters().copy_(plain.finish().parameters());
  server.global = next;
  centroids_ = centroids->finish();
}

void Rofl::save(Archive& archive) const {
  if (!centroids_.empty()) {
    archive.tensors[kCentroids] = at::tensor(centroids_);
  }
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
  return {"rofl", "noisy-label",
          "small losses, class centroids that all share, and pseudo-labels for what lies elsewhere",
          [] { return std::make_unique<Rofl>(); }};
}

}  // namespace winnow

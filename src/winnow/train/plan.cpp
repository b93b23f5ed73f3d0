#include "winnow/train/plan.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "winnow/base/random.h"

namespace winnow {
namespace {

void draw_jitter_row(Stream& stream, std::uint64_t places, std::int64_t* row) {
  row[0] = static_cast<std::int64_t>(stream.below(places));
  row[1] = static_cast<std::int64_t>(stream.below(places));
  row[2] = static_cast<std::int64_t>(stream.next_u32() & 1U);
}

// Each epoch is a fresh shuffle; the last short batch is kept (spec: label-noise 0.2).
std::vector<Plan::Batch> cut_batches(std::int64_t samples, const TrainOptions& options) {
  std::vector<Plan::Batch> batches;
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    for (std::int64_t start = 0; start < samples; start += options.batch_size) {
      batches.push_back(
          {epoch * samples + start, std::min(options.batch_size, samples - start), start == 0});
    }
  }
  return batches;
}

}  // namespace

Plan make_plan(const LocalSet& set, const TrainOptions& options, Augment augment,
               const TrainKey& key, std::int64_t views) {
  Plan plan;
  const std::int64_t samples = set.size();
  const std::int64_t entries = samples * options.epochs;
  plan.batches = cut_batches(samples, options);
  plan.index = at::empty({entries}, at::kLong);
  plan.place = at::empty({entries}, at::kLong);
  plan.label = at::empty({entries}, at::kLong);
  plan.views = views;
  auto* index = plan.index.data_ptr<std::int64_t>();
  auto* places = plan.place.data_ptr<std::int64_t>();
  auto* label = plan.label.data_ptr<std::int64_t>();
  Stream order(key.seed, "batches", key.round, key.client);
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    for (const std::int64_t place : order.permutation(samples)) {
      *places++ = place;
      *index++ = set.samples[static_cast<std::size_t>(place)];
      *label++ = set.labels[static_cast<std::size_t>(place)];
    }
  }
  if (augment) {
    plan.jitter = draw_jitter(
        views * entries,
        stream_key(key.seed, "augment",
                   {static_cast<std::uint64_t>(key.round), static_cast<std::uint64_t>(key.client)}),
        augment.places);
  }
  if (options.mixup > 0.0) {
    plan.partner = at::empty({entries}, at::kLong);
    plan.lambda = at::empty({std::ssize(plan.batches)}, at::kFloat);
    auto* partner = plan.partner.data_ptr<std::int64_t>();
    auto* lambda = plan.lambda.data_ptr<float>();
    Stream mix(key.seed, "mixup", key.round, key.client);
    for (const Plan::Batch& batch : plan.batches) {
      *lambda++ = static_cast<float>(mix.beta(options.mixup, options.mixup));
      std::ranges::copy(mix.permutation(batch.size), partner + batch.start);
    }
  }
  return plan;
}

at::Tensor draw_jitter(std::int64_t count, std::uint64_t stream_key, std::int64_t places) {
  at::Tensor jitter = at::empty({count, 3}, at::kLong);
  auto* row = jitter.data_ptr<std::int64_t>();
  Stream stream(stream_key);
  for (std::int64_t i = 0; i < count; ++i) {
    draw_jitter_row(stream, static_cast<std::uint64_t>(places), row + 3 * i);
  }
  return jitter;
}

Plan Plan::epoch(std::int64_t number, std::int64_t epochs) const {
  const std::int64_t size = entries() / epochs;
  const std::int64_t first = number * size;
  const auto per_epoch = std::ssize(batches) / epochs;
  const auto part = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.narrow(0, first, size) : tensor;
  };
  Plan plan;
  for (std::int64_t i = 0; i < per_epoch; ++i) {
    Batch batch = batches[static_cast<std::size_t>(number * per_epoch + i)];
    batch.start -= first;
    plan.batches.push_back(batch);
  }
  plan.index = part(index);
  plan.place = part(place);
  plan.label = part(label);
  plan.partner = part(partner);
  plan.views = views;
  if (jitter.defined()) {
    plan.jitter = jitter.view({views, entries(), 3}).narrow(1, first, size).reshape({-1, 3});
  }
  if (lambda.defined()) {
    plan.lambda = lambda.narrow(0, number * per_epoch, per_epoch);
  }
  return plan;
}

}  // namespace winnow

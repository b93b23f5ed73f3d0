#if WINNOW_WITH_CUDA

#include "winnow/train/gpu/plan_buffer.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace winnow::gpu {
namespace {

constexpr std::int64_t kSmallestPlan = 1 << 13;  // entries that a fresh plan buffer holds

}  // namespace

void PlanBuffer::reserve(std::int64_t entries, at::Device device) {
  if (entries <= space_.entries) {
    return;
  }
  space_.entries = kSmallestPlan;
  while (space_.entries < entries) {
    space_.entries *= 2;
  }
  const auto bytes = at::device(device).dtype(at::kByte);
  plan_ = at::zeros({space_.bytes()}, bytes);
  packed_ = at::zeros({space_.bytes()}, at::kByte).pin_memory();
}

void PlanBuffer::upload(const Plan& from, const Stepping& how,
                        const c10::cuda::CUDAStream& stream) {
  uploaded_.synchronize();  // the plan before has left the host
  auto* bytes = packed_.data_ptr<std::uint8_t>();
  const std::int64_t entries = from.index.numel();
  const auto put = [&](const at::Tensor& values, std::int64_t at) {
    auto* to = reinterpret_cast<std::int32_t*>(bytes + at);
    const auto* source = values.data_ptr<std::int64_t>();
    std::transform(source, source + entries, to,
                   [](std::int64_t value) { return static_cast<std::int32_t>(value); });
  };
  put(from.index, space_.at_index());
  put(from.label, space_.at_label());
  if (from.partner.defined()) {
    put(from.partner, space_.at_partner());
    std::copy_n(from.lambda.data_ptr<float>(), from.lambda.numel(),
                reinterpret_cast<float*>(bytes + space_.at_lambda()));
  }
  if (from.jitter.defined()) {
    const auto* source = from.jitter.data_ptr<std::int64_t>();
    for (std::int64_t view = 0; view < from.views; ++view) {
      std::transform(source + 3 * view * entries, source + 3 * (view + 1) * entries,
                     bytes + space_.at_jitter() + 3 * view * space_.entries,
                     [](std::int64_t value) { return static_cast<std::uint8_t>(value); });
    }
  }
  auto* pull = reinterpret_cast<float*>(bytes + space_.at_pull());
  for (const Plan::Batch& batch : from.batches) {
    const bool spared = how.rule.spare_first_batch && batch.opens_epoch;
    *pull++ = spared ? 0.0F : static_cast<float>(how.rule.proximal);
  }
  auto* knobs = reinterpret_cast<float*>(bytes + space_.at_knobs());
  knobs[0] = static_cast<float>(how.lr);
  knobs[1] = static_cast<float>(how.momentum);
  knobs[2] = static_cast<float>(how.weight_decay);
  const Cursor start;
  std::copy_n(reinterpret_cast<const std::uint8_t*>(&start), sizeof(start),
              bytes + space_.at_cursor());
  plan_.copy_(packed_, /*non_blocking=*/true);
  uploaded_.record(stream);
}

}  // namespace winnow::gpu

#endif

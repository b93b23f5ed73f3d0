// The plan of a training on the device, with everything else that changes from training to training
// but not from step to step: one copy brings it there, and captured steps read it by the cursor.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>

#include "winnow/train/gpu/gpu_kernels.h"
#include "winnow/train/plan.h"
#include "winnow/train/rule.h"

namespace winnow::gpu {

class PlanBuffer {
 public:
  // For how many entries there is room. reserve() makes it for more, at new addresses.
  std::int64_t entries() const { return space_.entries; }
  void reserve(std::int64_t entries, at::Device device);

  // Brings the plan to the device in one copy.
  void upload(const Plan& from, const Stepping& how, const c10::cuda::CUDAStream& stream);

  // Where the parts lie on the device, as BatchJob and UpdateJob want them.
  std::int32_t* index() { return part<std::int32_t>(space_.at_index()); }
  std::int32_t* label() { return part<std::int32_t>(space_.at_label()); }
  std::int32_t* partner() { return part<std::int32_t>(space_.at_partner()); }
  float* lambda() { return part<float>(space_.at_lambda()); }
  float* pull() { return part<float>(space_.at_pull()); }
  float* knobs() { return part<float>(space_.at_knobs()); }
  Cursor* cursor() { return part<Cursor>(space_.at_cursor()); }
  std::uint8_t* jitter() { return part<std::uint8_t>(space_.at_jitter()); }

 private:
  static constexpr std::int64_t kKnobs = 3;
  static constexpr std::int64_t kViews = 2;  // of a sample in a batch, at most

  // Bytes of the buffer.
  struct Space {
    std::int64_t entries = 0;
    std::int64_t at_index() const { return 0; }
    std::int64_t at_label() const { return 4 * entries; }
    std::int64_t at_partner() const { return 8 * entries; }
    std::int64_t at_lambda() const { return 12 * entries; }
    std::int64_t at_pull() const { return 16 * entries; }
    std::int64_t at_knobs() const { return 20 * entries; }
    std::int64_t at_cursor() const { return at_knobs() + 4 * kKnobs + 4; }
    std::int64_t at_jitter() const { return at_cursor() + 8; }
    std::int64_t bytes() const { return at_jitter() + 3 * kViews * entries; }
  };

  template <typename T>
  T* part(std::int64_t at) {
    return reinterpret_cast<T*>(plan_.data_ptr<std::uint8_t>() + at);
  }

  Space space_;
  at::Tensor plan_, packed_;
  at::cuda::CUDAEvent uploaded_;
};

}  // namespace winnow::gpu

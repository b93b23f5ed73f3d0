// What stands for device.cpp and gpu_trainer.cpp in a build without CUDA.
#include "winnow/train/gpu/device.h"
#include "winnow/train/gpu/gpu_trainer.h"

#include "winnow/base/error.h"

#if !WINNOW_WITH_CUDA

namespace winnow {

struct GpuTrainer::Parts {};

GpuTrainer::GpuTrainer(const MakeNet& /*make*/, const Feed& /*feed*/, bool /*low*/,
                       at::Generator& /*dropout*/) {
  throw Error(ErrorKind::internal, "this build has no CUDA");
}

GpuTrainer::~GpuTrainer() = default;

void GpuTrainer::add(const State& /*state*/) {}

void GpuTrainer::begin(const std::vector<State>& /*starts*/) {}

void GpuTrainer::forget() {}

void GpuTrainer::on_stream(const std::function<void()>& work) const {
  work();
}

at::Tensor GpuTrainer::run(const Plan& /*plan*/, const Objective& /*objective*/,
                           const Stepping& /*how*/, const std::function<void()>& /*before_step*/) {
  return {};
}

void wait_for(at::Device /*device*/) {}

void go_first(at::Device /*device*/) {}

void keep_until_read(const at::Tensor& /*tensor*/) {}

void reset_peak_device_memory(at::Device /*device*/) {}

std::int64_t peak_device_memory(at::Device /*device*/) {
  return 0;
}

}  // namespace winnow

#endif

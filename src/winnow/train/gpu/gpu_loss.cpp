#include "winnow/train/gpu/gpu_loss.h"

#if WINNOW_WITH_CUDA

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/csrc/autograd/custom_function.h>

#include <map>
#include <mutex>

#include "winnow/train/gpu/gpu_kernels.h"

namespace winnow {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The gradient is known as soon as the loss is.
struct OneKernelLoss : torch::autograd::Function<OneKernelLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& labels, double label_smoothing, double temperature) {
    at::Tensor loss = at::empty({}, logits.options());
    at::Tensor gradient = at::empty_like(logits);
    const at::Tensor wanted = labels.contiguous();
    gpu::LossJob job;
    job.logits = logits.data_ptr<float>();
    job.labels = wanted.data_ptr<std::int64_t>();
    job.rows = static_cast<std::int32_t>(logits.size(0));
    job.classes = static_cast<std::int32_t>(logits.size(1));
    job.smoothing = static_cast<float>(label_smoothing);
    job.temperature = static_cast<float>(temperature);
    job.loss = loss.data_ptr<float>();
    job.gradient = gradient.data_ptr<float>();
    gpu::cross_entropy(job, at::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    context->save_for_backward({gradient});
    return loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const at::Tensor gradient = context->get_saved_variables()[0];
    const bool is_one = upstream[0].data_ptr() == gpu_one(gradient.device()).data_ptr();
    return {is_one ? gradient : gradient.mul(upstream[0]), {}, {}, {}};
  }
};

}  // namespace

bool has_gpu_cross_entropy(const at::Tensor& logits) {
  return logits.is_cuda() && logits.scalar_type() == at::kFloat && logits.dim() == 2 &&
         logits.size(0) > 0 && logits.is_contiguous();
}

at::Tensor gpu_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                             double label_smoothing, double temperature) {
  return OneKernelLoss::apply(logits, labels, label_smoothing, temperature);
}

at::Tensor gpu_one(at::Device device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, at::Tensor> ones;
  const std::scoped_lock lock(mutex);
  at::Tensor& one = ones[device.index()];
  if (!one.defined()) {
    one = at::ones({}, at::device(device).dtype(at::kFloat));
    at::cuda::getCurrentCUDAStream(device.index()).synchronize();  // all streams read it
  }
  return one;
}

}  // namespace winnow

#else

#include "winnow/base/error.h"

namespace winnow {

bool has_gpu_cross_entropy(const at::Tensor& /*logits*/) {
  return false;
}

at::Tensor gpu_cross_entropy(const at::Tensor& /*logits*/, const at::Tensor& /*labels*/,
                             double /*label_smoothing*/, double /*temperature*/) {
  throw Error(ErrorKind::internal, "this build has no CUDA");
}

at::Tensor gpu_one(at::Device /*device*/) {
  throw Error(ErrorKind::internal, "this build has no CUDA");
}

}  // namespace winnow

#endif

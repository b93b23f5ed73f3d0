#include "winnow/engine/threads.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

// Present only where LibTorch stands on OpenBLAS.
extern "C" void openblas_set_num_threads(int count) __attribute__((weak));
extern "C" int openblas_get_num_threads() __attribute__((weak));

namespace winnow {

void use_one_thread_per_operation() {
  at::set_num_threads(1);
  if (openblas_set_num_threads != nullptr) {
    openblas_set_num_threads(1);
  }
}

void keep_one_thread_per_operation() {
  // Asking takes over what use_one_thread_per_operation() set, once per thread.
  at::get_num_threads();
}

void allow_tf32_on_gpu(bool allow) {
  at::globalContext().setAllowTF32CuDNN(allow);
  at::globalContext().setAllowTF32CuBLAS(allow);
}

OperationSettings operation_settings() {
  const at::Context& context = at::globalContext();
  return {.threads = at::get_num_threads(),
          .openblas_threads = openblas_get_num_threads == nullptr ? 1 : openblas_get_num_threads(),
          .tf32_in_cudnn = context.allowTF32CuDNN(),
          .tf32_in_cublas = context.allowTF32CuBLAS()};
}

void use(const OperationSettings& settings) {
  at::set_num_threads(settings.threads);
  if (openblas_set_num_threads != nullptr) {
    openblas_set_num_threads(settings.openblas_threads);
  }
  at::globalContext().setAllowTF32CuDNN(settings.tf32_in_cudnn);
  at::globalContext().setAllowTF32CuBLAS(settings.tf32_in_cublas);
}

}  // namespace winnow

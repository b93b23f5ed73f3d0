// Threads inside an operation are a loss when lanes already fill the cores.
#pragma once

namespace winnow {

// One thread per operation for ATen, oneDNN and OpenBLAS in this process. Call before any lane
// starts.
void use_one_thread_per_operation();

// Makes the calling thread keep that limit. OpenMP holds it per thread, and oneDNN asks OpenMP, so
// every thread that computes calls this once before it starts; further calls cost nothing.
void keep_one_thread_per_operation();

// Whether products on a GPU may use TF32; without it a GPU can be compared with a CPU.
void allow_tf32_on_gpu(bool allow);

// What the functions above change in this process, for who has more to do in it than a run.
struct OperationSettings {
  int threads = 1;
  int openblas_threads = 1;
  bool tf32_in_cudnn = true;
  bool tf32_in_cublas = false;
};
OperationSettings operation_settings();
void use(const OperationSettings& settings);

}  // namespace winnow

// Threads inside an operation are a loss when lanes already fill the cores.
#pragma once

namespace winnow {

// One thread per operation for ATen, oneDNN and OpenBLAS in this process. Call before any lane
// starts.
void use_one_thread_per_operation();

// Makes the calling thread keep that limit. OpenMP holds it per thread, and oneDNN asks OpenMP, so
// every thread that computes calls this once before it starts; further calls cost nothing.
void keep_one_thread_per_operation();

// Exact float32 products on a GPU, so that it can be compared with a CPU.
void use_full_precision_on_gpu();

}  // namespace winnow

#include "winnow/engine/threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <thread>

#include "testing/support.h"

// Present only where LibTorch stands on OpenMP.
extern "C" int omp_get_max_threads() __attribute__((weak));

namespace winnow::threads_test {

TEST(Threads, OneOperationUsesOneThread) {
  use_one_thread_per_operation();
  EXPECT_EQ(at::get_num_threads(), 1);
}

// OpenMP keeps the number per thread, and oneDNN asks OpenMP directly.
TEST(Threads, NewThreadsKeepTheLimit) {
  if (omp_get_max_threads == nullptr) {
    GTEST_SKIP() << "no OpenMP";
  }
  use_one_thread_per_operation();
  int seen = 0;
  std::thread([&] {
    keep_one_thread_per_operation();
    seen = omp_get_max_threads();
  }).join();
  EXPECT_EQ(seen, 1);
}

TEST(Threads, WhatTheProcessHadBeforeCanBePutBack) {
  const OperationSettings before = operation_settings();
  use({.threads = 3, .openblas_threads = 2, .tf32_in_cudnn = false, .tf32_in_cublas = true});
  const OperationSettings kept = operation_settings();
  use_one_thread_per_operation();
  allow_tf32_on_gpu(false);
  use(kept);
  EXPECT_EQ(at::get_num_threads(), 3);
  EXPECT_TRUE(operation_settings().tf32_in_cublas);
  use(before);
}

}  // namespace winnow::threads_test

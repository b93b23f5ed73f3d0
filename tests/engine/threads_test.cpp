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

}  // namespace winnow::threads_test

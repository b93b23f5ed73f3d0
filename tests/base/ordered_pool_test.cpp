#include "winnow/base/ordered_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

namespace winnow::ordered_pool_test {

void nap(std::size_t milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST(OrderedPool, FoldsInOrderWhateverTheWorkersDo) {
  for (const std::size_t workers : {1UL, 2UL, 5UL}) {
    OrderedPool pool(workers);
    std::vector<int> results(40);
    std::vector<std::size_t> seen;
    pool.run(
        results.size(),
        [&](std::size_t, std::size_t item) {
          nap(item % 7);
          results[item] = static_cast<int>(item) * 3;
        },
        [&](std::size_t item) {
          EXPECT_EQ(results[item], static_cast<int>(item) * 3);
          seen.push_back(item);
        });
    ASSERT_EQ(seen.size(), results.size());
    for (std::size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i], i);
    }
  }
}

TEST(OrderedPool, NeverHoldsMoreThanItsWindow) {
  OrderedPool pool(3);
  std::atomic<int> held{0};
  std::atomic<int> most{0};
  pool.run(
      60,
      [&](std::size_t, std::size_t item) {
        nap(item == 0 ? 50 : 0);
        const int now = ++held;
        int known = most.load();
        while (now > known && !most.compare_exchange_weak(known, now)) {
        }
      },
      [&](std::size_t) { --held; });
  EXPECT_EQ(held.load(), 0);
  EXPECT_LE(most.load(), static_cast<int>(pool.window()));
}

TEST(OrderedPool, RethrowsTheFirstFailureAndCanBeUsedAgain) {
  OrderedPool pool(2);
  std::vector<std::size_t> folded;
  try {
    pool.run(
        20,
        [](std::size_t, std::size_t item) {
          if (item == 5) {
            throw std::runtime_error("item five");
          }
        },
        [&](std::size_t item) { folded.push_back(item); });
    FAIL() << "expected an exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "item five");
  }
  EXPECT_EQ(folded.size(), 5U);
  std::size_t count = 0;
  pool.run(
      10, [](std::size_t, std::size_t) {}, [&](std::size_t) { ++count; });
  EXPECT_EQ(count, 10U);
}

TEST(OrderedPool, AFailingFoldStopsTheRun) {
  OrderedPool pool(2);
  EXPECT_THROW(pool.run(
                   20, [](std::size_t, std::size_t) {},
                   [](std::size_t item) {
                     if (item == 3) {
                       throw std::runtime_error("fold");
                     }
                   }),
               std::runtime_error);
}

TEST(OrderedPool, NoItemsIsDoneAtOnce) {
  OrderedPool pool(2);
  pool.run(
      0, [](std::size_t, std::size_t) { FAIL(); }, [](std::size_t) { FAIL(); });
}

}  // namespace winnow::ordered_pool_test

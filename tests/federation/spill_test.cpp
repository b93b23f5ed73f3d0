#include "winnow/federation/spill.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "testing/support.h"
#include "winnow/federation/memory.h"

namespace winnow::spill_test {

// Mapped files of this process.
int mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("winnow-model-") != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(Spill, ManyTensorsShareAFewFilesAndComeBackAsTheyWere) {
  Spill spill;
  std::vector<at::Tensor> kept;
  for (int i = 0; i < 2000; ++i) {
    kept.push_back(spill.copy(at::full({3000}, i)));
  }
  EXPECT_LT(mappings(), 100);
  for (int i = 0; i < 2000; ++i) {
    const at::Tensor& tensor = kept[static_cast<std::size_t>(i)];
    ASSERT_TRUE(Spill::is_spilled(tensor));
    ASSERT_TRUE(at::equal(tensor, at::full({3000}, i))) << i;
  }
  EXPECT_EQ(Spill::bytes_in_memory(kept[0]), 0);
  EXPECT_EQ(Spill::bytes_in_memory(at::ones({10})), 40);
  EXPECT_FALSE(Spill::is_spilled(at::ones({10})));
}

TEST(Spill, APlaceThatWasGivenBackIsUsedAgain) {
  Spill spill;
  std::vector<at::Tensor> kept;
  for (int i = 0; i < 100; ++i) {
    kept.push_back(spill.copy(at::full({2000}, i)));
  }
  const int before = mappings();
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < kept.size(); i += 2) {
      kept[i] = spill.copy(at::full({2000}, round));
    }
  }
  EXPECT_LE(mappings(), before + 10);
  EXPECT_TRUE(at::equal(kept[1], at::full({2000}, 1)));
  EXPECT_TRUE(at::equal(kept[2], at::full({2000}, 19)));
  // From any thread, and after the store.
  spill = Spill();
  std::thread([&] { kept.clear(); }).join();
  EXPECT_EQ(mappings(), 0);
}

TEST(Spill, PagesThatAreDroppedAreReadAgain) {
  Spill spill;
  const at::Tensor tensor = spill.copy(at::arange(5000, at::kDouble));
  Spill::drop_pages(tensor);
  Spill::drop_pages(at::ones({3}));  // nothing to drop
  EXPECT_TRUE(at::equal(tensor, at::arange(5000, at::kDouble)));
}

TEST(ClientMemory, IsKeptWithinTheLimit) {
  Spill spill({.limit = 50'000});
  std::int64_t in_memory = 0;
  ClientMemory first;
  first.own.tensors["large"] = at::ones({10'000});
  first.own.tensors["small"] = at::ones({10});
  keep_within(first, spill, in_memory);
  EXPECT_EQ(in_memory, 40'000);
  EXPECT_EQ(bytes_in_memory(first), 40'000);
  ClientMemory second;
  second.base.tensors["large"] = at::full({10'000}, 2.0);
  second.model = at::full({2000}, 3.0);
  second.last_model = at::full({2000}, 4.0);
  keep_within(second, spill, in_memory);
  EXPECT_TRUE(Spill::is_spilled(second.base.tensors.at("large")));
  EXPECT_FALSE(Spill::is_spilled(second.model)) << "there was room for it";
  EXPECT_TRUE(Spill::is_spilled(second.last_model));
  EXPECT_EQ(in_memory, 48'000);
  drop_pages(second);
  EXPECT_TRUE(at::equal(second.base.tensors.at("large"), at::full({10'000}, 2.0)));
  EXPECT_TRUE(at::equal(second.last_model, at::full({2000}, 4.0)));
}

}  // namespace winnow::spill_test

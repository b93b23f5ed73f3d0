#include "winnow/federation/file_values.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "testing/resident.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/spill.h"

namespace winnow::file_values_test {

constexpr std::int64_t kValues = std::int64_t{5} << 19;  // five blocks, 10 MiB

LayoutPtr some_layout() {
  return std::make_shared<const Layout>(
      std::vector<Slot>{{"w", {kValues - 3}}, {"running_mean", {3}, SlotKind::buffer, 0, 0}});
}

State drawn(const LayoutPtr& layout, std::uint64_t seed) {
  return {layout, at::randn({layout->total()}, at::make_generator<at::CPUGeneratorImpl>(seed),
                            at::TensorOptions(at::kFloat))};
}

// The same values in a file, which has no name any more.
State mapped(const State& state) {
  std::string path = (std::filesystem::temp_directory_path() / "file-values-XXXXXX").string();
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  ::unlink(path.c_str());
  EXPECT_EQ(::write(descriptor, state.flat.data_ptr(), static_cast<std::size_t>(state.bytes())),
            state.bytes());
  State found{state.layout, map_file_values(descriptor, state.layout->total())};
  ::close(descriptor);
  return found;
}

std::int64_t resident_bytes_of(const State& state) {
  return resident_bytes(state.flat.data_ptr(), state.bytes());
}

TEST(FileValues, WhatIsReadOnceDoesNotStayInMemory) {
  const LayoutPtr layout = some_layout();
  const State plain = drawn(layout, 1);
  const State other = drawn(layout, 2);
  Spill spill;
  for (const State& state : {mapped(plain), State{layout, spill.copy(plain.flat)}}) {
    EXPECT_TRUE(at::equal(state.flat, plain.flat));
    EXPECT_GT(resident_bytes_of(state), state.bytes() / 2) << "this looks at memory at all";
    EXPECT_TRUE(all_finite(state));
    EXPECT_LT(resident_bytes_of(state), state.bytes() / 10);
    WeightedMean mean;
    mean.add(state, 2.0);
    EXPECT_LT(resident_bytes_of(state), state.bytes() / 10);
    WeightedMean expected;
    expected.add(plain, 2.0);
    EXPECT_TRUE(at::equal(mean.finish().flat, expected.finish().flat));
    EXPECT_EQ(parameter_distance(state, other), parameter_distance(plain, other));
    EXPECT_LT(resident_bytes_of(state), state.bytes() / 10);
  }
}

TEST(FileValues, TheDistanceIsOfTheParametersAlone) {
  const LayoutPtr layout = some_layout();
  const State a = drawn(layout, 1);
  const State b = drawn(layout, 2);
  const double expected =
      (a.parameters().to(at::kDouble) - b.parameters().to(at::kDouble)).norm().item<double>();
  EXPECT_NEAR(parameter_distance(a, b), expected, 1e-9 * expected);
  EXPECT_EQ(parameter_distance(a, a), 0.0);
  a.buffers().fill_(1000);
  EXPECT_NEAR(parameter_distance(a, b), expected, 1e-9 * expected);
  a.parameters()[7] = NAN;
  EXPECT_TRUE(std::isnan(parameter_distance(a, b)));
}

TEST(FileValues, WhatCannotBeMappedSaysWhy) {
  errno = 0;
  EXPECT_FALSE(map_file_values(-1, 10).defined());
  EXPECT_EQ(errno, EBADF);
}

}  // namespace winnow::file_values_test

#include "winnow/model/cpu/cpu_layers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "model/support.h"
#include "winnow/model/cpu/relu_pool.h"

namespace winnow::cpu_layers_test {

at::Tensor together(const at::Tensor& x) {
  return at::empty(x.sizes(), x.options(), at::MemoryFormat::ChannelsLast).copy_(x);
}

bool has_same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = a.contiguous();
  const at::Tensor right = b.contiguous();
  return left.sizes() == right.sizes() &&
         std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) == 0;
}

using Layers = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// What the layers give, and the gradients of what goes in for a gradient of noise.
std::vector<at::Tensor> forward_and_back(const Layers& layers, const std::vector<at::Tensor>& in) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& tensor : in) {
    leaves.push_back(tensor.detach().clone(at::MemoryFormat::Preserve).requires_grad_());
  }
  const at::Tensor out = layers(leaves);
  std::vector<at::Tensor> all =
      torch::autograd::grad({out}, leaves, {together(noise(out.sizes(), 9))});
  all.push_back(out.detach());
  return all;
}

at::Tensor library_pool(const at::Tensor& x) {
  return at::max_pool2d(x.relu(), {2, 2});
}

void expect_library_bits_of_pool(const at::Tensor& x, const std::string& what) {
  ASSERT_TRUE(has_cpu_relu_pool(x)) << what;
  const auto ours = forward_and_back([](const auto& in) { return cpu_relu_pool(in[0]); }, {x});
  const auto theirs = forward_and_back([](const auto& in) { return library_pool(in[0]); }, {x});
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(has_same_bits(ours[i], theirs[i])) << what << ", result " << i;
  }
}

TEST(CpuReluPool, HasTheBitsOfTheLibraryForAnyChannelsAndOddMaps) {
  if (!has_relu_pool()) {
    GTEST_SKIP() << "this CPU has no AVX2";
  }
  at::set_num_threads(1);
  for (const std::int64_t channels : {1, 3, 6, 8, 13, 16, 64}) {
    for (const auto& [height, width] : {std::pair{2, 2}, {4, 6}, {5, 4}, {4, 7}, {9, 3}}) {
      expect_library_bits_of_pool(together(noise({3, channels, height, width}, 1)),
                                  std::to_string(channels) + " channels, " +
                                      std::to_string(height) + " x " + std::to_string(width));
    }
  }
}

TEST(CpuReluPool, ResolvesTiesAndOddNumbersAsTheLibraryDoes) {
  if (!has_relu_pool()) {
    GTEST_SKIP() << "this CPU has no AVX2";
  }
  // Every window of these values, in channels enough for the wide path and for the narrow one.
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> odd{0.0F, -0.0F, 1.0F, 2.0F, -1.0F, infinity, std::nanf("")};
  const auto kinds = static_cast<std::int64_t>(odd.size());
  const std::int64_t windows = kinds * kinds * kinds * kinds;
  at::Tensor x = at::empty({windows, 1, 2, 2}, at::kFloat);
  for (std::int64_t window = 0; window < windows; ++window) {
    std::int64_t rest = window;
    for (std::int64_t place = 0; place < 4; ++place, rest /= kinds) {
      x.data_ptr<float>()[4 * window + place] = odd[static_cast<std::size_t>(rest % kinds)];
    }
  }
  for (const std::int64_t channels : {1, 11}) {
    expect_library_bits_of_pool(together(x.expand({windows, channels, 2, 2})),
                                std::to_string(channels) + " channels");
  }
}

TEST(CpuReluPool, LeavesWhatItWasNotMadeForToTheLibrary) {
  EXPECT_FALSE(has_cpu_relu_pool(noise({2, 4, 6, 6}, 1)));  // channels apart
  EXPECT_FALSE(has_cpu_relu_pool(together(noise({2, 4, 6, 6}, 1, at::kDouble))));
  EXPECT_FALSE(has_cpu_relu_pool(together(noise({0, 4, 6, 6}, 1))));
  EXPECT_FALSE(has_cpu_relu_pool(noise({4, 6}, 1)));
}

TEST(CpuConvReluPool, HasTheBitsOfTheLibrary) {
  at::set_num_threads(1);
  struct Case {
    std::int64_t images, in, size, out, kernel, padding;
  };
  // LeNet-5's two on 28 and on 32 pixels, in full and in last batches, and some others. More of
  // them than a thread keeps plans, twice.
  std::vector<Case> cases;
  for (const std::int64_t images : {1, 4, 10, 33}) {
    cases.push_back({images, 1, 28, 6, 5, 2});
    cases.push_back({images, 6, 14, 16, 5, 0});
    cases.push_back({images, 3, 32, 6, 5, 0});
    cases.push_back({images, 2, 13, 7, 7, 3});
    cases.push_back({images, 8, 11, 24, 4, 1});
  }
  cases.insert(cases.end(), cases.begin(), cases.end());
  for (const Case& one : cases) {
    const at::Tensor x = together(noise({one.images, one.in, one.size, one.size}, 2));
    const at::Tensor weight = noise({one.out, one.in, one.kernel, one.kernel}, 3);
    const at::Tensor bias = noise({one.out}, 4);
    if (!has_cpu_conv_relu_pool(x, weight, bias)) {
      GTEST_SKIP() << "this build has no oneDNN, or this CPU no AVX2";
    }
    const auto ours = forward_and_back(
        [&](const auto& in) { return cpu_conv_relu_pool(in[0], in[1], in[2], one.padding); },
        {x, weight, bias});
    const auto theirs = forward_and_back(
        [&](const auto& in) {
          return library_pool(at::conv2d(in[0], in[1], in[2], at::IntArrayRef({1, 1}),
                                         at::IntArrayRef({one.padding, one.padding})));
        },
        {x, weight, bias});
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(has_same_bits(ours[i], theirs[i]))
          << one.images << " images of " << one.in << " x " << one.size << ", kernel " << one.kernel
          << ", result " << i;
    }
  }
}

// Two passes before the first gradient: what the first has to remember stays its own.
TEST(CpuConvReluPool, RemembersEachPassByItself) {
  const at::Tensor weight = noise({6, 1, 5, 5}, 3).requires_grad_();
  const at::Tensor bias = noise({6}, 4).requires_grad_();
  const at::Tensor first = together(noise({4, 1, 28, 28}, 5));
  const at::Tensor second = together(noise({4, 1, 28, 28}, 6));
  if (!has_cpu_conv_relu_pool(first, weight, bias)) {
    GTEST_SKIP() << "this build has no oneDNN, or this CPU no AVX2";
  }
  const auto gradient = [&](const at::Tensor& of) {
    return torch::autograd::grad({of.sum()}, {weight, bias});
  };
  const auto alone = gradient(cpu_conv_relu_pool(first, weight, bias, 2));
  const at::Tensor one = cpu_conv_relu_pool(first, weight, bias, 2);
  const at::Tensor other = cpu_conv_relu_pool(second, weight, bias, 2);
  const auto of_other = gradient(other);
  const auto of_one = gradient(one);
  EXPECT_TRUE(has_same_bits(of_one[0], alone[0]));
  EXPECT_TRUE(has_same_bits(of_one[1], alone[1]));
  EXPECT_FALSE(has_same_bits(of_other[0], alone[0]));
}

TEST(CpuConvReluPool, LeavesSmallKernelsToTheLibrary) {
  const at::Tensor x = together(noise({2, 4, 8, 8}, 1));
  EXPECT_FALSE(has_cpu_conv_relu_pool(x, noise({6, 4, 3, 3}, 2), noise({6}, 3)));
  EXPECT_FALSE(has_cpu_conv_relu_pool(x, noise({6, 4, 5, 5}, 2), {}));
}

}  // namespace winnow::cpu_layers_test

// The kernels that normalise, add, rectify and pool at once, against the library's layers in double
// precision; and steps of whole networks that use them, against a CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/cuda.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "winnow/data/catalog.h"
#include "winnow/data/synthetic.h"
#include "winnow/engine/threads.h"
#include "winnow/model/gpu/gpu_norm.h"
#include "winnow/model/layers.h"
#include "winnow/train/lane.h"

namespace winnow::gpu_norm_test {

class GpuNorm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) {
      GTEST_SKIP() << "no CUDA device here";
    }
    at::manual_seed(7);
    allow_tf32_on_gpu(false);
  }
};

enum class Kind { plain, relu, residual, pool };

struct Case {
  std::vector<std::int64_t> shape;
  Kind kind;
  bool low;
  bool split;

  std::string name() const {
    const char* kinds[] = {"plain", "relu", "residual", "pool"};
    std::string text = std::string(kinds[static_cast<int>(kind)]) + (low ? " bf16" : " float32") +
                       (split ? " split" : "");
    for (const std::int64_t extent : shape) {
      text += " " + std::to_string(extent);
    }
    return text;
  }
};

// What goes into a normalisation, in double precision on the host, rounded to what the GPU gets.
struct Inputs {
  explicit Inputs(const Case& wanted) : type(wanted.low ? at::kBFloat16 : at::kFloat) {
    const std::int64_t channels = wanted.shape[1];
    at::Tensor values = at::randn(wanted.shape, at::kDouble).mul_(2);
    values.add_(at::randn({channels, 1, 1}, at::kDouble).mul_(20));
    if (wanted.kind == Kind::pool) {
      // Equal or clearly apart: which of two is the larger must not depend on the last bit.
      values = values.mul_(64).round_().div_(64);
    }
    x = rounded(values);
    residual = rounded(at::randn(wanted.shape, at::kDouble));
    shift = rounded(at::randn({channels}, at::kDouble));
    weight = at::randn({channels}, at::kFloat).to(at::kDouble);
    bias = at::randn({channels}, at::kFloat).to(at::kDouble);
    running_mean = at::randn({channels}, at::kFloat).to(at::kDouble);
    running_var = at::rand({channels}, at::kFloat).to(at::kDouble);
  }
  at::Tensor rounded(const at::Tensor& values) const { return values.to(type).to(at::kDouble); }
  at::Tensor on_gpu(const at::Tensor& values) const {
    const at::Tensor there = values.to(at::kCUDA, type);
    return there.dim() == 4 ? there.contiguous(at::MemoryFormat::ChannelsLast) : there;
  }

  at::ScalarType type;
  at::Tensor x, residual, shift, weight, bias, running_mean, running_var;
};

at::Tensor leaf(const at::Tensor& values) {
  return values.detach().clone(at::MemoryFormat::Preserve).requires_grad_();
}

// Largest difference, as a share of the largest value or of one.
double apart(const at::Tensor& ours, const at::Tensor& wanted) {
  const at::Tensor here = ours.detach().cpu().to(at::kDouble);
  const at::Tensor there = wanted.detach();
  return (here - there).abs().max().item<double>() /
         std::max(1.0, there.abs().max().item<double>());
}

// Checks value, gradients and running statistics.
void expect_like_the_library(const Case& test) {
  SCOPED_TRACE(test.name());
  const Inputs in(test);
  const bool relu = test.kind != Kind::plain;
  const bool pool = test.kind == Kind::pool;
  const bool adds = test.kind == Kind::residual;

  const at::Tensor x = leaf(in.x);
  const at::Tensor residual = leaf(in.residual);
  const at::Tensor weight = leaf(in.weight);
  const at::Tensor bias = leaf(in.bias);
  const at::Tensor mean = in.running_mean.clone();
  const at::Tensor var = in.running_var.clone();
  at::Tensor wanted = at::batch_norm(x + in.shift.view({1, -1, 1, 1}), weight, bias, mean, var,
                                     true, 0.1, 1e-5, false);
  wanted = adds ? wanted + residual : wanted;
  wanted = relu ? wanted.relu() : wanted;
  wanted = pool ? at::max_pool2d(wanted, {2, 2}) : wanted;
  const at::Tensor upstream = in.rounded(at::randn(wanted.sizes(), at::kDouble));
  wanted.backward(upstream);

  const at::Tensor gpu_x = leaf(in.on_gpu(in.x));
  const at::Tensor gpu_residual = leaf(in.on_gpu(in.residual));
  const at::Tensor gpu_shift = leaf(in.on_gpu(in.shift));
  const NormCall call{.weight = leaf(in.weight.to(at::kCUDA, at::kFloat)),
                      .bias = leaf(in.bias.to(at::kCUDA, at::kFloat)),
                      .shift = gpu_shift,
                      .residual = adds ? gpu_residual : at::Tensor(),
                      .running_mean = in.running_mean.to(at::kCUDA, at::kFloat),
                      .running_var = in.running_var.to(at::kCUDA, at::kFloat),
                      .relu = relu,
                      .pool = pool,
                      .split = test.split};
  ASSERT_TRUE(has_gpu_norm(gpu_x, call));
  const at::Tensor y = gpu_norm(gpu_x, call);
  ASSERT_EQ(y.sizes(), wanted.sizes());
  EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
  // As it comes from a layer that works plane by plane.
  y.backward(upstream.to(at::kCUDA, in.type));

  const double rounding = test.low ? 8e-3 : 1e-5;
  EXPECT_LT(apart(y, wanted), rounding);
  EXPECT_LT(apart(gpu_x.grad(), x.grad()), rounding);
  EXPECT_LT(apart(call.weight.grad(), weight.grad()), 2e-5);
  EXPECT_LT(apart(call.bias.grad(), bias.grad()), 2e-5);
  EXPECT_LT(apart(call.running_mean, mean), 1e-5);
  EXPECT_LT(apart(call.running_var, var), 1e-5);
  EXPECT_EQ(gpu_shift.grad().abs().max().item<double>(), 0.0);
  if (adds) {
    EXPECT_LT(apart(gpu_residual.grad(), residual.grad()), 1e-6);
  }
}

TEST_F(GpuNorm, ComputesWhatTheLayersDo) {
  const std::vector<std::vector<std::int64_t>> shapes{
      {10, 64, 32, 32}, {10, 128, 16, 16}, {10, 512, 4, 4}, {1, 8, 5, 7},   {3, 24, 9, 6},
      {1, 16, 2, 2},    {2, 8, 3, 3},      {1, 8, 2, 2000}, {7, 8, 33, 31}, {70, 16, 32, 32}};
  for (const auto& shape : shapes) {
    for (const Kind kind : {Kind::plain, Kind::relu, Kind::residual, Kind::pool}) {
      for (const bool low : {false, true}) {
        for (const bool split : {false, true}) {
          expect_like_the_library({shape, kind, low, split});
        }
      }
    }
  }
}

TEST_F(GpuNorm, TakesFewChannelsAndSinglePixels) {
  for (const bool split : {false, true}) {
    expect_like_the_library({{5, 4, 6, 6}, Kind::pool, false, split});
    expect_like_the_library({{5, 12, 6, 6}, Kind::residual, false, split});
    expect_like_the_library({{9, 8, 1, 1}, Kind::relu, true, split});
    expect_like_the_library({{9, 8, 1, 1}, Kind::residual, false, split});
  }
}

// Far from zero compared with its spread, where sums of squares would keep no digit of it.
TEST_F(GpuNorm, KeepsTheVarianceOfValuesFarFromZero) {
  const at::Tensor x = at::randn({10, 8, 16, 16}, at::kFloat).add_(4096);
  const at::Tensor weight = at::ones({8}, at::kCUDA);
  const at::Tensor bias = at::zeros({8}, at::kCUDA);
  const at::Tensor there = x.to(at::kDouble);
  const at::Tensor wanted =
      at::batch_norm(there, at::ones({8}, at::kDouble), at::zeros({8}, at::kDouble), {}, {}, true,
                     0.1, 1e-5, false);
  for (const bool split : {false, true}) {
    const at::Tensor y = gpu_norm(x.to(at::kCUDA).contiguous(at::MemoryFormat::ChannelsLast),
                                  {.weight = weight, .bias = bias, .split = split});
    EXPECT_LT(apart(y, wanted), 2e-3);  // x itself has 12 bits behind the point
  }
}

// The first of equal values gets the gradient, as in the library.
TEST_F(GpuNorm, GivesTheFirstOfEqualValuesTheGradient) {
  const at::Tensor values = at::randint(3, {6, 8, 8, 8}, at::kFloat);
  const at::Tensor x = leaf(values.to(at::kDouble));
  const at::Tensor ones = at::ones({8}, at::kDouble);
  const at::Tensor wanted = at::max_pool2d(
      at::batch_norm(x, ones, at::zeros({8}, at::kDouble), {}, {}, true, 0.1, 1e-5, false).relu(),
      {2, 2});
  const at::Tensor upstream = at::randn(wanted.sizes(), at::kFloat);
  wanted.backward(upstream.to(at::kDouble));
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor gpu_x =
        leaf(values.to(at::kCUDA, type).contiguous(at::MemoryFormat::ChannelsLast));
    const at::Tensor y = gpu_norm(gpu_x, {.weight = at::ones({8}, at::kCUDA),
                                          .bias = at::zeros({8}, at::kCUDA),
                                          .relu = true,
                                          .pool = true});
    y.backward(upstream.to(at::kCUDA, type));
    EXPECT_LT(apart(gpu_x.grad(), x.grad()), type == at::kFloat ? 1e-5 : 2e-2);
  }
}

TEST_F(GpuNorm, ShowsWhatIsNoNumber) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor weight = at::ones({8}, at::kCUDA);
  const at::Tensor bias = at::zeros({8}, at::kCUDA);
  for (const bool pool : {false, true}) {
    for (const bool split : {false, true}) {
      at::Tensor x = at::randn({4, 8, 6, 6}, at::kCUDA).contiguous(at::MemoryFormat::ChannelsLast);
      x.select(0, 1).select(0, 3).select(0, 2).select(0, 5).fill_(kNan);
      const NormCall call{
          .weight = weight, .bias = bias, .relu = true, .pool = pool, .split = split};
      at::Tensor y = gpu_norm(x, call);
      EXPECT_TRUE(y.select(1, 3).isnan().all().item<bool>());
      EXPECT_EQ(y.isnan().sum().item<std::int64_t>(), y.select(1, 3).numel());
      // A bias in front of the normalisation that is no number shows, too.
      NormCall shifted = call;
      shifted.shift = at::zeros({8}, at::kCUDA);
      shifted.shift.select(0, 5).fill_(std::numeric_limits<float>::infinity());
      y = gpu_norm(x.nan_to_num(0.0), shifted);
      EXPECT_EQ(y.isnan().sum().item<std::int64_t>(), y.select(1, 5).numel());
      EXPECT_TRUE(y.select(1, 5).isnan().all().item<bool>());
    }
  }
}

TEST_F(GpuNorm, GivesTheSameBitsEveryTime) {
  for (const bool split : {false, true}) {
    const Case test{{10, 64, 32, 32}, Kind::pool, true, split};
    const Inputs in(test);
    const at::Tensor upstream = at::randn({10, 64, 16, 16}, at::kCUDA).to(in.type);
    std::vector<at::Tensor> before;
    for (int turn = 0; turn < 3; ++turn) {
      const at::Tensor x = leaf(in.on_gpu(in.x));
      const NormCall call{.weight = leaf(in.weight.to(at::kCUDA, at::kFloat)),
                          .bias = leaf(in.bias.to(at::kCUDA, at::kFloat)),
                          .relu = true,
                          .pool = true,
                          .split = split};
      const at::Tensor y = gpu_norm(x, call);
      y.backward(upstream);
      const std::vector<at::Tensor> now{y, x.grad(), call.weight.grad(), call.bias.grad()};
      for (std::size_t i = 0; i < before.size(); ++i) {
        EXPECT_TRUE(at::equal(now[i], before[i])) << i;
      }
      before = now;
    }
  }
}

TEST_F(GpuNorm, LeavesOtherMapsToTheLibrary) {
  const NormCall call{.weight = at::ones({8}, at::kCUDA), .bias = at::zeros({8}, at::kCUDA)};
  const at::Tensor x = at::randn({2, 8, 4, 4}, at::kCUDA);
  EXPECT_FALSE(has_gpu_norm(x, call));  // plane by plane
  EXPECT_FALSE(has_gpu_norm(x.cpu().contiguous(at::MemoryFormat::ChannelsLast), call));
  EXPECT_FALSE(has_gpu_norm(x.to(at::kDouble).contiguous(at::MemoryFormat::ChannelsLast), call));
  EXPECT_TRUE(has_gpu_norm(x.contiguous(at::MemoryFormat::ChannelsLast), call));
}

TEST_F(GpuNorm, ServesAConvolutionWithItsBias) {
  Weights weights;
  const Conv conv(weights, "c", {.in = 16, .out = 32, .kernel = 3, .padding = 1});
  const BatchNorm norm(weights, "n", 32);
  const at::Tensor images = at::randn({6, 16, 9, 9}, at::kFloat);
  std::vector<std::vector<at::Tensor>> results;
  for (const at::Device device : {at::Device(at::kCPU), at::Device(at::kCUDA, 0)}) {
    State state = weights.initial(1).to(device);
    const at::Tensor gradient = at::zeros({state.layout->parameters()}, state.flat.options());
    weights.bind(state.flat, gradient);
    const at::Tensor x = leaf(images.to(device).contiguous(at::MemoryFormat::ChannelsLast));
    const at::Tensor y = conv_norm_act(conv, norm, x, {.training = true}, {.pool = true});
    (y * y).sum().backward();
    const at::Tensor outside = conv_norm_act(conv, norm, x, {}, {.pool = true});
    results.push_back({y.detach().cpu(), x.grad().cpu(), gradient.cpu(), state.flat.cpu(),
                       outside.detach().cpu()});
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    const double scale = std::max(1.0, results[0][i].abs().max().item<double>());
    EXPECT_LT((results[0][i] - results[1][i]).abs().max().item<double>() / scale, 2e-4) << i;
  }
}

// How far training moves every tensor, on a CPU and on a GPU: the update in each of its forms, with
// weights in the order of the channels and not.
void expect_the_same_moves(const std::string& model, const Stepping& how) {
  DataOptions data_settings;
  data_settings.name = "synthetic";
  data_settings.samples = 60;
  data_settings.test_samples = 10;
  data_settings.channels = 3;
  data_settings.size = 32;
  const DataSet data = load(data_settings, builtin_data_sets());
  const NetShape shape{data.classes, 3, 32, 32};
  const MakeNet make = [&] { return builtin_networks().find(model).make(shape); };
  std::vector<std::int64_t> samples(45);
  std::iota(samples.begin(), samples.end(), std::int64_t{0});
  const LocalSet set{samples, std::span(data.train.labels).first(45)};
  const TrainOptions options{.epochs = 4, .batch_size = 10};
  const Plan plan = make_plan(set, options, false, {1, 2, 3});
  const State start = make()->weights().initial(1);
  std::vector<at::Tensor> moves;
  for (const at::Device device : {at::Device(at::kCPU), at::Device(at::kCUDA, 0)}) {
    const Feed feed(data.train.images, data.normalisation, 0, device);
    Lane lane(make, feed, false);
    Stepping steps = how;
    if (steps.rule.drift.defined()) {
      steps.rule.drift = steps.rule.drift.to(device);
    }
    lane.on_stream([&] {
      lane.trainer().begin({start.to(device)}, {1, 2, 3});
      for (std::int64_t epoch = 0; epoch < 4; ++epoch) {  // eager, captured, replayed
        lane.trainer().run(plan.epoch(epoch, 4), CrossEntropy(options, steps.rule.head_only),
                           steps);
      }
      moves.push_back(lane.trainer().model().flat.cpu() - start.flat);
    });
  }
  const double share = model == "lenet5" ? 0.03 : 0.35;
  for (const Slot& slot : start.layout->slots()) {
    const at::Tensor cpu = moves[0].narrow(0, slot.offset, slot.size);
    const at::Tensor gpu = moves[1].narrow(0, slot.offset, slot.size);
    const auto length = cpu.norm().item<double>();
    EXPECT_LT((cpu - gpu).norm().item<double>(), share * length + 1e-4)
        << model << " " << slot.name;
  }
}

// Behind norms rounding alone moves weights apart by a fifth of the way in these steps, with the
// library's kernels as well; weights that were taken for others would be wrong by more than all of
// it.
TEST_F(GpuNorm, MovesTheWeightsAsACpuDoes) {
  for (const std::string model : {"cnn4", "resnet18", "lenet5"}) {
    const std::int64_t parameters = builtin_networks()
                                        .find(model)
                                        .make(NetShape{10, 3, 32, 32})
                                        ->weights()
                                        .layout()
                                        ->parameters();
    const double lr = model == "resnet18" ? 3e-4 : 3e-3;
    expect_the_same_moves(model, {.lr = lr});
    expect_the_same_moves(model, {.lr = lr, .momentum = 0.5, .weight_decay = 0.1});
    if (model == "resnet18") {
      continue;  // it takes a CPU long
    }
    expect_the_same_moves(model, {.lr = lr, .rule = {.proximal = 0.5}});
    expect_the_same_moves(
        model, {.lr = lr, .momentum = 0.5, .rule = {.proximal = 0.5, .pull = Pull::norm}});
    expect_the_same_moves(model, {.lr = lr, .rule = {.head_only = true}});
    expect_the_same_moves(
        model, {.lr = lr, .rule = {.drift = at::randn({parameters}, at::kFloat).mul_(0.1)}});
  }
}

}  // namespace winnow::gpu_norm_test

// The same federation on a CPU and on a GPU: same seed, same plan, float32 without TF32.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <cmath>

#include "winnow/data/synthetic.h"
#include "winnow/run/session.h"

namespace winnow {
namespace {

// Stated in docs/design.md.
constexpr double kWeightTolerance = 2e-3;
constexpr double kAccuracyTolerance = 0.01;

Experiment small_experiment(const std::string& model, std::int64_t channels, std::int64_t size,
                            bool augment) {
  Experiment experiment;
  experiment.seed = 3;
  experiment.rounds = 3;
  experiment.data.name = "synthetic";
  experiment.data.samples = 600;
  experiment.data.test_samples = 400;
  experiment.data.channels = channels;
  experiment.data.size = size;
  experiment.data.augment = augment ? "on" : "off";
  experiment.federation.clients = 6;
  experiment.federation.fraction = 0.5;
  experiment.model.name = model;
  experiment.train.epochs = 3;
  // Gentle steps: with large ones rounding differences grow tenfold every round, on any device.
  experiment.train.lr = 0.03;
  experiment.train.momentum = 0.5;
  return experiment;
}

void expect_agreement(const Experiment& experiment) {
  const Registry registry = builtin_methods();
  Session on_cpu(experiment, registry, {.lanes = 1, .device = "cpu"}, nullptr);
  Session on_gpu(experiment, registry, {.lanes = 2, .device = "cuda", .precision = "fp32"},
                 nullptr);
  for (std::int64_t round = 0; round < experiment.rounds; ++round) {
    const RoundRecord cpu = on_cpu.play().record;
    const RoundRecord gpu = on_gpu.play().record;
    const double apart =
        (on_cpu.global().flat - on_gpu.global().flat.cpu()).abs().max().item<double>();
    ::testing::Test::RecordProperty(
        "largest weight difference in round " + std::to_string(round + 1), std::to_string(apart));
    std::printf("%s round %d: weights differ by %.2e, accuracy %.4f / %.4f\n",
                experiment.model.name.c_str(), static_cast<int>(round + 1), apart, *cpu.accuracy,
                *gpu.accuracy);
    EXPECT_LT(apart, kWeightTolerance) << "round " << round + 1;
    EXPECT_NEAR(*cpu.accuracy, *gpu.accuracy, kAccuracyTolerance) << "round " << round + 1;
  }
}

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) {
      GTEST_SKIP() << "no CUDA device here";
    }
  }
};

TEST_F(Gpu, AgreesWithTheCpuOnLenet) {
  expect_agreement(small_experiment("lenet5", 1, 28, false));
}

TEST_F(Gpu, AgreesWithTheCpuWithAugmentation) {
  expect_agreement(small_experiment("lenet5", 3, 32, true));
}

TEST_F(Gpu, AgreesWithTheCpuWithMixupAndSmoothing) {
  Experiment experiment = small_experiment("lenet5", 1, 28, false);
  experiment.train.mixup = 1.0;
  experiment.train.label_smoothing = 0.1;
  experiment.method = "fedprox";
  experiment.method_params = Json{{"mu", 0.1}};
  expect_agreement(experiment);
}

TEST_F(Gpu, FeedsTheSameImages) {
  Experiment experiment = small_experiment("lenet5", 3, 32, true);
  const DataSet data = load(experiment.data);
  const Feed cpu(data.train.images, data.normalisation, 0, at::kCPU);
  const Feed gpu(data.train.images, data.normalisation, 0, at::kCUDA);
  const at::Tensor index = at::arange(64, at::kLong);
  const Jitter jitter = draw_jitter(64, 5);
  at::Tensor buffer;
  at::Tensor other;
  const at::Tensor a = cpu.batch(index, jitter, buffer);
  const at::Tensor b = gpu.batch(index.cuda(), jitter.cuda(), other).cpu();
  EXPECT_LT((a - b).abs().max().item<double>(), 1e-5);
}

}  // namespace
}  // namespace winnow

// The same federation on a CPU and on a GPU: same seed, same plan, float32 without TF32.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "winnow/base/text.h"
#include "winnow/data/synthetic.h"
#include "winnow/experiment/toml.h"
#include "winnow/model/layers.h"
#include "winnow/run/session.h"
#include "winnow/train/loss.h"

namespace winnow::gpu_test {

// Stated in docs/design.md.
constexpr double kWeightTolerance = 2e-3;
constexpr double kAccuracyTolerance = 0.01;
constexpr std::int64_t kMostRounds = 20;  // of a short run of a method

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
  const Registry registry = builtin_registry();
  Session on_cpu(experiment, registry, {.lanes = 3, .device = "cpu"}, nullptr);
  Session on_gpu(experiment, registry, {.lanes = 2, .device = "cuda", .precision = "fp32"},
                 nullptr);
  for (std::int64_t round = 0; round < experiment.rounds; ++round) {
    const RoundRecord cpu = on_cpu.play().record;
    const RoundRecord gpu = on_gpu.play().record;
    const at::Tensor apart_by = (on_cpu.global().flat - on_gpu.global().flat.cpu()).abs();
    const std::int64_t parameters = on_cpu.global().layout->parameters();
    const auto apart = apart_by.narrow(0, 0, parameters).max().item<double>();
    const double statistics =
        apart_by.numel() > parameters ? apart_by.slice(0, parameters).max().item<double>() : 0.0;
    ::testing::Test::RecordProperty(
        "largest weight difference in round " + std::to_string(round + 1), std::to_string(apart));
    std::printf(
        "%s round %d: weights differ by %.2e, running statistics by %.2e, accuracy %.4f / %.4f\n",
        experiment.model.name.c_str(), static_cast<int>(round + 1), apart, statistics,
        *cpu.accuracy, *gpu.accuracy);
    EXPECT_LT(apart, kWeightTolerance) << "round " << round + 1;
    EXPECT_LT(statistics, kWeightTolerance) << "round " << round + 1;
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

// Steps of Adam are not captured. A large eps keeps weights whose gradient is mere rounding in
// place, which would otherwise move by a whole step on one device and not on the other.
TEST_F(Gpu, AgreesWithTheCpuOnStepsOfAdam) {
  for (const char* optimizer : {"adam", "adamw"}) {
    Experiment experiment = small_experiment("lenet5", 1, 28, false);
    experiment.train.optimizer = optimizer;
    experiment.train.lr = 1e-3;
    experiment.train.eps = 1e-2;
    experiment.train.weight_decay = 0.01;
    experiment.method = "fedprox";
    experiment.method_params = Json{{"mu", 0.1}};
    expect_agreement(experiment);
  }
}

// Two models and memory of every sample: a captured step finds the batch's entries and writes into
// the lane's buffers as a step on the CPU does.
class Remembering final : public Objective {
 public:
  Remembering(Lane& lane, std::int64_t entries)
      : memory_(lane.trainer().buffer("memory", entries, {}, at::kFloat)) {
    memory_.zero_();
  }
  at::Tensor loss(const Batch& batch, const Models& models) const override {
    const at::Tensor losses =
        at::cross_entropy_loss(models.logits(0, batch.images), batch.labels, {}, 0);
    memory_.index_copy_(0, batch.entries, losses.detach() + batch.step.to(at::kFloat));
    return losses.mean() +
           at::cross_entropy_loss(models.logits(1, batch.images), batch.labels).mul(0.5);
  }
  std::string signature() const override { return "remembering"; }
  bool reads_entries() const override { return true; }
  at::Tensor memory() const { return memory_.cpu(); }

 private:
  mutable at::Tensor memory_;
};

TEST_F(Gpu, TrainsSeveralModelsWithMemoryAsTheCpuDoes) {
  const DataSet data = load(small_experiment("lenet5", 3, 32, true).data, builtin_data_sets());
  const NetShape shape{data.classes, 3, 32, 32};
  const MakeNet make = [&] { return builtin_networks().find("lenet5").make(shape); };
  std::vector<std::int64_t> samples(45);
  std::iota(samples.begin(), samples.end(), std::int64_t{0});
  const LocalSet set{samples, std::span(data.train.labels).first(45)};
  const TrainOptions options{.epochs = 6, .batch_size = 10};
  const Plan plan = make_plan(set, options, true, {1, 2, 3});
  std::vector<at::Tensor> ends;
  for (const at::Device device : {at::Device(at::kCPU), at::Device(at::kCUDA, 0)}) {
    const Feed feed(data.train.images, data.normalisation, 0, device);
    Lane lane(make, feed, true);
    const std::vector<State> starts{make()->weights().initial(1).to(device),
                                    make()->weights().initial(2).to(device)};
    lane.on_stream([&] {
      const Remembering objective(lane, plan.entries());
      lane.trainer().begin(starts, {1, 2, 3});
      for (std::int64_t epoch = 0; epoch < 6; ++epoch) {  // eager, captured, replayed
        lane.trainer().run(plan.epoch(epoch, 6), objective,
                           {.lr = 0.03, .momentum = 0.5, .models = {0, 1}});
      }
      ends.push_back(
          at::cat({lane.trainer().model(0).flat.cpu(), lane.trainer().model(1).flat.cpu()}));
      ends.push_back(objective.memory().narrow(0, 0, 45));
    });
  }
  EXPECT_LT((ends[0] - ends[2]).abs().max().item<double>(), kWeightTolerance);
  EXPECT_LT((ends[1] - ends[3]).abs().max().item<double>(), kWeightTolerance);
}

// A few rounds of a method, short enough for the CPU beside it, by which it gets through all its
// phases: what its entry in the registry says. FedAvg ends at 77 %, far from chance.
Experiment experiment_for(const std::string& method) {
  Json tree = parse_toml(R"(name = "gpu"
seed = 3
rounds = 3
[data]
name = "synthetic"
samples = 300
test_samples = 400
classes = 4
channels = 1
size = 28
[federation]
clients = 6
fraction = 1.0
[validation]
source = "split"
[[noise]]
name = "fedcorr_labels"
rho = 0.5
[model]
name = "lenet5"
[train]
epochs = 6
lr = 0.05
momentum = 0.5
)",
                         "gpu.toml");
  set_by_path(tree, "method.name", method);
  for (const auto& [key, value] : builtin_methods().find(method).smoke.items()) {
    set_by_path(tree, key, value);
  }
  if (method == "coteaching_plus") {
    // With larger steps rounding decides which samples it keeps.
    set_by_path(tree, "train.lr", 0.03);
  }
  return parse_experiment(tree, builtin_registry());
}

// Of the best round: towards the end some methods swing by far more than rounding moves them.
double accuracy_on(const char* device, const Experiment& experiment, const Registry& registry) {
  Session session(experiment, registry, {.lanes = 6, .device = device, .precision = "fp32"},
                  nullptr);
  double best = 0.0;
  while (session.rounds_done() < session.rounds()) {
    best = std::max(best, session.play().record.accuracy.value_or(0.0));
  }
  return best;
}

// Here without a GPU, too.
TEST(MethodsForTheGpu, AllHaveAnExperimentThatCanBegin) {
  const Registry registry = builtin_registry();
  for (const MethodInfo& info : registry.methods) {
    SCOPED_TRACE(info.name);
    const Experiment experiment = experiment_for(info.name);
    for (const auto& [key, value] : info.smoke.items()) {
      const std::vector<std::string> parts = split(key, '.');
      const Json resolved = experiment.resolved();
      EXPECT_EQ(parts.size() == 1 ? resolved.at(key) : resolved.at(parts[0]).at(parts[1]), value)
          << key;
    }
    const Session session(experiment, registry, {.lanes = 1, .device = "cpu"}, nullptr);
    EXPECT_GE(session.rounds(), 1);
    EXPECT_LE(session.rounds(), kMostRounds) << "too long for a test";
  }
}

class GpuMethod : public Gpu, public ::testing::WithParamInterface<std::string> {};

// Decisions of a method may fall differently after rounding, so only the accuracy is compared.
TEST_P(GpuMethod, RunsAsOnTheCpu) {
  constexpr double kSimilar = 0.1;
  const Registry registry = builtin_registry();
  const Experiment experiment = experiment_for(GetParam());
  const double cpu = accuracy_on("cpu", experiment, registry);
  const double gpu = accuracy_on("cuda", experiment, registry);
  std::printf("%s: accuracy %.3f / %.3f\n", GetParam().c_str(), cpu, gpu);
  EXPECT_NEAR(cpu, gpu, kSimilar);
}

std::vector<std::string> method_names() {
  const Registry registry = builtin_registry();
  std::vector<std::string> names;
  for (const MethodInfo& info : registry.methods) {
    names.push_back(info.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, GpuMethod, ::testing::ValuesIn(method_names()),
                         [](const auto& info) { return info.param; });

// Clients that keep models of their own keep them through a checkpoint.
TEST_F(Gpu, RestoresTheClientsOwnModels) {
  const Registry registry = builtin_registry();
  const Experiment experiment = experiment_for("rhfl");
  Session first(experiment, registry, {.lanes = 3, .device = "cuda", .precision = "fp32"}, nullptr);
  first.play();
  Session resumed(experiment, registry, {.lanes = 2, .device = "cuda", .precision = "fp32"},
                  nullptr);
  resumed.restore(first.checkpoint());
  EXPECT_EQ(resumed.model_hash(), first.model_hash());
}

TEST_F(Gpu, AgreesWithTheCpuOnBatchNorm) {
  Experiment experiment = small_experiment("resnet18", 3, 32, true);
  experiment.rounds = 1;
  experiment.train.epochs = 1;
  // Ten steps of this network with lr 0.03 part float32 from float64 by 0.03 on a CPU alone, and
  // its statistics by 0.2; with this rate it is 2e-5 and 1e-4.
  experiment.train.lr = 3e-4;
  expect_agreement(experiment);
}

// Value and gradient of the loss in one kernel, for more and fewer rows than the kernel has warps.
TEST_F(Gpu, ComputesTheSameLoss) {
  for (const std::int64_t rows : {1, 10, 77}) {
    const at::Tensor logits = at::randn({rows, 13}).mul_(4);
    const at::Tensor labels = at::randint(13, {rows}, at::kLong);
    for (const auto& [smoothing, temperature] : {std::pair(0.0, 1.0), std::pair(0.1, 0.7)}) {
      const at::Tensor a = logits.clone().requires_grad_();
      const at::Tensor b = logits.cuda().requires_grad_();
      const at::Tensor cpu = smoothed_cross_entropy(a, labels, smoothing, temperature);
      const at::Tensor gpu = smoothed_cross_entropy(b, labels.cuda(), smoothing, temperature);
      EXPECT_NEAR(cpu.item<double>(), gpu.item<double>(), 1e-5);
      (cpu * 3).backward();
      (gpu * 3).backward();
      EXPECT_LT((a.grad() - b.grad().cpu()).abs().max().item<double>(), 5e-6);
    }
  }
}

TEST_F(Gpu, DropsOutAndScales) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCUDA).clone();
  const at::Tensor x = at::ones({100, 1000}, at::kCUDA).requires_grad_();
  const at::Tensor y = dropout(x, 0.25, {.training = true, .dropout = &generator});
  const at::Tensor kept = y.detach().ne(0);
  EXPECT_NEAR(kept.to(at::kFloat).mean().item<double>(), 0.75, 0.01);
  EXPECT_NEAR(y.max().item<double>(), 1.0 / 0.75, 1e-6);
  y.sum().backward();
  EXPECT_LT((x.grad() - y.detach()).abs().max().item<double>(), 1e-6);
}

TEST_F(Gpu, FeedsTheSameImages) {
  Experiment experiment = small_experiment("lenet5", 3, 32, true);
  const DataSet data = load(experiment.data, builtin_data_sets());
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

}  // namespace winnow::gpu_test

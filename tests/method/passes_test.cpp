// Captured steps cannot count what they do, so an objective says what it costs. Here the network
// itself counts, on a CPU, where every step calls it.
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "testing/simulation.h"
#include "testing/support.h"
#include "winnow/experiment/registry.h"
#include "winnow/model/layers.h"

namespace winnow::passes_test {

std::atomic<std::int64_t> forward_seen;
std::atomic<std::int64_t> backward_seen;

class CountingNet final : public Net {
 public:
  static constexpr std::int64_t kWidth = 6;

  explicit CountingNet(const NetShape& shape)
      : hidden_(weights_, "hidden", shape.channels * shape.height * shape.width, kWidth) {
    declare_head("fc", kWidth, shape.classes, init::fan_in_uniform(kWidth),
                 init::fan_in_uniform(kWidth));
  }
  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    forward_seen += images.size(0);
    backward_seen += c10::GradMode::is_enabled() ? images.size(0) : 0;
    return hidden_(images.flatten(1), pass).tanh();
  }

 private:
  Linear hidden_;
};

struct Case {
  std::string method;
  Json values = Json::object();
};

class CountedPasses : public testing::TestWithParam<Case> {};

TEST_P(CountedPasses, AreThoseThatTheNetworkSees) {
  const Registry methods = builtin_registry();
  const std::unique_ptr<Method> method = methods.make(GetParam().method);
  Params params;
  method->declare(params);
  params.read(GetParam().values, "method");
  DataSet data = tiny_data();
  data.validation = data.test;
  Simulation engine(data, deal(data, {10, 25, 5, 20}), net_info<CountingNet>("counting"),
                    {.epochs = 2, .batch_size = 6, .lr = 0.05}, {.lanes = 2, .seed = 5}, nullptr);
  engine.serve(method->client_side(), method->exchanges({}));
  State global = engine.initial_state(5);
  const Setting setting{.seed = 5,
                        .rounds = 4,
                        .clients = engine.size(),
                        .fraction = 0.75,
                        .classes = data.classes,
                        .validation = data.validation.size(),
                        .layout = global.layout};
  for (std::int64_t round = 0; round < 3; ++round) {
    forward_seen = 0;
    backward_seen = 0;
    const Passes before = engine.traffic().passes;
    Json notes = Json::object();
    Server server{setting, engine, global, notes};
    server.initial = [&](std::uint64_t seed) { return engine.initial_state(seed); };
    method->play(round, server);
    engine.commit();
    const Passes counted = engine.traffic().passes - before;
    EXPECT_EQ(counted.forward, forward_seen) << "round " << round;
    EXPECT_EQ(counted.backward, backward_seen) << "round " << round;
    EXPECT_GT(counted.backward, 0) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, CountedPasses,
    testing::Values(Case{"fedavg"}, Case{"fedprox"}, Case{"mixup"}, Case{"moon"}, Case{"sce"},
                    Case{"fedlsr"}, Case{"coteaching", {{"forget_rate", 0.3}, {"ramp", 1}}},
                    Case{"dividemix", {{"warmup", 1}}}, Case{"joint_optimisation", {{"warmup", 1}}},
                    Case{"selfie", {{"warmup", 1}}}, Case{"rofl", {{"pseudo_round", 1}}},
                    Case{"fedrn", {{"warmup", 1}, {"neighbours", 1}, {"finetune", false}}},
                    Case{"fedcorr", {{"iterations", 1}, {"lid_neighbours", 3}}},
                    Case{"feddiv", {{"warmup", 0}}}, Case{"fednoro", {{"warmup", 1}}},
                    Case{"fedelc", {{"warmup", 1}}}, Case{"fedgr", {{"sniff_rounds", 1}}},
                    Case{"fedefc", {{"from", 0}, {"patience", 1}}}, Case{"gce"}, Case{"elr"},
                    Case{"flr"}, Case{"coteaching_plus", {{"warmup", 1}}}, Case{"logit_adjustment"},
                    Case{"feddecorr"}, Case{"fedexp"}, Case{"power_of_choice"},
                    Case{"fedns", {{"score_batch", 4}}},
                    Case{"fedns", {{"score_batch", 4}, {"score_layer", "hidden.weight"}}}),
    [](const testing::TestParamInfo<Case>& info) {
      return info.param.method + std::to_string(info.index);
    });

// FedRN, Table 8: (e + 2k + 1) F and (k + e) B where every sample is taken for clean, as where none
// is sure enough to be, and one more pass forward for the expertise that is reported, which the
// paper leaves out.
TEST(PassesOfFedRn, AreThoseOfThePapersFormula) {
  const Registry methods = builtin_registry();
  for (const std::int64_t k : {1, 2}) {
    const std::unique_ptr<Method> method = methods.make("fedrn");
    Params params;
    method->declare(params);
    params.read({{"warmup", 1}, {"neighbours", k}, {"threshold", 1.0}}, "method");
    const DataSet data = tiny_data();
    constexpr std::int64_t kEpochs = 5;
    constexpr std::int64_t kSamples = 15;
    Simulation engine(
        data, deal(data, {kSamples, kSamples, kSamples, kSamples}), net_info<TwoLayerNet>("two"),
        {.epochs = kEpochs, .batch_size = 5, .lr = 0.01}, {.lanes = 2, .seed = 5}, nullptr);
    engine.serve(method->client_side(), method->exchanges({}));
    State global = engine.initial_state(5);
    const Setting setting{
        .seed = 5, .rounds = 2, .clients = 4, .fraction = 1.0, .classes = data.classes};
    Json notes = Json::object();
    Server server{setting, engine, global, notes};
    method->play(0, server);
    engine.commit();
    const Passes warm = engine.traffic().passes;
    constexpr std::int64_t kNoiseInput = 1;  // compared to find similar clients
    EXPECT_EQ(warm.forward, 4 * (kSamples * (kEpochs + 1) + kNoiseInput));
    EXPECT_EQ(warm.backward, 4 * kSamples * kEpochs);
    method->play(1, server);
    const Passes robust = engine.traffic().passes - warm;
    EXPECT_EQ(robust.forward, 4 * (kSamples * (kEpochs + 2 * k + 1 + 1) + kNoiseInput));
    EXPECT_EQ(robust.backward, 4 * kSamples * (kEpochs + k));
  }
}

}  // namespace winnow::passes_test

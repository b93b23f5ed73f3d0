#include "winnow/method/base/fedopt/fedopt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "method/base_rounds.h"
#include "testing/support.h"

namespace winnow::fedopt::fedopt_test {

using testing::FloatNear;
using testing::Pointwise;

std::unique_ptr<FedOpt> fedopt(Kind kind, const Json& table = Json::object()) {
  auto method = std::make_unique<FedOpt>(kind);
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

Upload upload(const State& model, std::uint32_t samples) {
  return {0, Message("train_done").set("model", model).set("samples", samples),
          static_cast<double>(samples)};
}

// One server step from the model `w` whose clients moved by `displacement`.
float step(FedOpt& method, float w, float displacement) {
  return values_of(fuse(method, state_of({w}), {upload(state_of({w + displacement}), 1)})).front();
}

double saved(const FedOpt& method, const std::string& name) {
  Archive archive;
  method.save(archive);
  return archive.tensors.at("fedopt." + name)[0].item<double>();
}

double second(Kind kind, double v, double displacement) {
  return second_moment(kind, at::full({1}, v, at::kDouble),
                       at::full({1}, displacement, at::kDouble), 0.99)
      .item<double>();
}

// spec: baselines 4
TEST(FedAdam, GivesTheWorkedStepForEveryBiasCorrection) {
  const auto after_one = [](const std::string& bias) {
    const auto method = fedopt(Kind::adam, {{"lr", 0.1}, {"tau", 1e-9}, {"adam_bias", bias}});
    return step(*method, 1.0F, 0.5F);
  };
  EXPECT_NEAR(after_one("none"), 1.1, 1e-6);
  EXPECT_NEAR(after_one("standard"), 1.1, 1e-6);
  EXPECT_NEAR(after_one("flower"), 1.074246, 1e-6);
  const auto method = fedopt(Kind::adam);
  step(*method, 1.0F, 0.5F);
  EXPECT_NEAR(saved(*method, "m"), 0.05, 1e-9);
  EXPECT_NEAR(saved(*method, "v"), 0.0025, 1e-9);
}

TEST(FedAdam, CorrectsTheBiasByTheRound) {
  EXPECT_EQ(bias_correction(AdamBias::none, 0.9, 0.99, 3), 1.0);
  EXPECT_NEAR(bias_correction(AdamBias::standard, 0.9, 0.99, 2), std::sqrt(1 - 0.9801) / (1 - 0.81),
              1e-12);
  EXPECT_EQ(bias_correction(AdamBias::flower, 0.9, 0.99, 1),
            bias_correction(AdamBias::standard, 0.9, 0.99, 2));
  EXPECT_NEAR(bias_correction(AdamBias::standard, 0.9, 0.99, 5000), 1.0, 1e-12);
}

// spec: label-noise C.7 #8
TEST(FedAdam, GivesTheWorkedModelOfClipFL) {
  const State global = state_of({1, 2});
  const std::vector<Upload> uploads{upload(state_of({0.4F, 1.4F}), 30),
                                    upload(state_of({0.7F, 2.3F}), 10)};
  const Json settings{{"lr", 0.01}, {"tau", 0.001}};
  const auto from_zero = fedopt(Kind::adam, settings);
  EXPECT_THAT(values_of(fuse(*from_zero, global, uploads)),
              Pointwise(FloatNear(2e-7F), {0.99018692F, 1.99025974F}));

  Json from_tau = settings;
  from_tau["v_init"] = "tau_squared";
  const auto method = fedopt(Kind::adam, from_tau);
  EXPECT_THAT(values_of(fuse(*method, global, uploads)),
              Pointwise(FloatNear(2e-7F), {0.99018864F, 1.99026308F}));
  Archive archive;
  method->save(archive);
  EXPECT_NEAR(archive.tensors.at("fedopt.m")[0].item<double>(), -0.0525, 1e-7);
  EXPECT_NEAR(archive.tensors.at("fedopt.m")[1].item<double>(), -0.0375, 1e-7);
  EXPECT_NEAR(archive.tensors.at("fedopt.v")[0].item<double>(), 0.00275724, 1e-8);
  EXPECT_NEAR(archive.tensors.at("fedopt.v")[1].item<double>(), 0.00140724, 1e-8);
}

// spec: baselines 4
TEST(FedYogi, GivesTheWorkedSteps) {
  const auto method = fedopt(Kind::yogi, {{"lr", 0.01}, {"tau", 1e-3}});
  EXPECT_NEAR(step(*method, 1.0F, 0.5F), 1.009804, 1e-6);
  EXPECT_NEAR(saved(*method, "v"), 0.0025, 1e-9);
  step(*method, 1.009804F, 0.1F);
  EXPECT_NEAR(saved(*method, "v"), 0.0026, 1e-8);
  EXPECT_NEAR(second(Kind::yogi, 0.01, 0.01), 0.009999, 1e-12);
}

TEST(FedAdagrad, GivesTheWorkedSteps) {
  const auto method = fedopt(Kind::adagrad, {{"lr", 0.1}, {"tau", 1e-9}});
  const float once = step(*method, 1.0F, 0.5F);
  EXPECT_NEAR(once, 1.1, 1e-6);
  EXPECT_NEAR(step(*method, once, 0.3F), 1.151450, 1e-6);
  EXPECT_NEAR(saved(*method, "v"), 0.34, 1e-7);
}

TEST(FedOpt, KeepsTheSecondMomentFromBecomingNegative) {
  for (const Kind kind : {Kind::adam, Kind::yogi, Kind::adagrad}) {
    for (const double v : {0.0, 1e-12, 0.01, 5.0}) {
      for (const double displacement : {0.0, 1e-7, -0.1, 3.0}) {
        EXPECT_GE(second(kind, v, displacement), 0.0) << v << " " << displacement;
      }
    }
  }
}

TEST(FedOpt, ComesToRestWhenClientsDoNotMove) {
  for (const Kind kind : {Kind::adam, Kind::yogi, Kind::adagrad}) {
    const auto method = fedopt(kind);
    float w = step(*method, 1.0F, 0.5F);
    float last = w;
    for (int round = 0; round < 400; ++round) {
      last = w;
      w = step(*method, w, 0.0F);
    }
    EXPECT_EQ(w, last);
    EXPECT_TRUE(std::isfinite(w));
  }
}

TEST(FedOpt, AveragesBuffersAndLeavesTheReceivedModelAlone) {
  const auto method = fedopt(Kind::adam);
  const State global = state_of({1}, {9}, {9});
  const State next =
      fuse(*method, global,
           {upload(state_of({1.5F}, {0}, {10}), 100), upload(state_of({1.5F}, {4}, {11}), 300)});
  EXPECT_EQ(values_of(next.buffers()), std::vector<float>{3.0F});
  EXPECT_EQ(values_of(next.counters()), std::vector<float>{11.0F});
  EXPECT_EQ(values_of(global), (std::vector<float>{1, 9, 9}));
  Archive archive;
  method->save(archive);
  EXPECT_EQ(archive.tensors.at("fedopt.m").numel(), 1) << "trained parameters only";
}

TEST(FedOpt, ResumesBitForBit) {
  for (const Kind kind : {Kind::adam, Kind::yogi, Kind::adagrad}) {
    const Json table = kind == Kind::adam
                           ? Json{{"adam_bias", "standard"}, {"v_init", "tau_squared"}}
                           : Json::object();
    const auto whole = fedopt(kind, table);
    const float middle = step(*whole, 0.3F, 0.11F);
    Archive archive;
    whole->save(archive);
    const auto resumed = fedopt(kind, table);
    resumed->load(archive);
    const float end = step(*whole, middle, 0.07F);
    EXPECT_EQ(step(*resumed, middle, 0.07F), end);

    whole->load(archive);
    EXPECT_EQ(step(*whole, middle, 0.07F), end) << "a round is taken back";
    whole->load({});
    EXPECT_EQ(step(*whole, 0.3F, 0.11F), middle) << "an empty archive clears";
  }
}

TEST(FedOpt, SendsWhatFedAvgSends) {
  FakeFleet fleet({1, 3}, [](std::int64_t, const Message& task) {
    return Message("train_done").set("model", task.get<State>("model")).set("samples", 3U);
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 2, .fraction = 1.0, .classes = 3};
  State global = state_of({1, 2, 3});
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  const auto method = fedopt(Kind::adam);
  method->play(0, server);
  EXPECT_EQ(values_of(global), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(fleet.traffic().bytes_down, 2 * (4 + 12));
  EXPECT_EQ(fleet.traffic().bytes_up, 2 * (12 + 4));
  for (const Message& reply : fleet.replies) {
    EXPECT_NO_THROW(check(reply, method->exchanges({})));
  }
}

TEST(FedOpt, HasTheDocumentedDefaults) {
  const auto defaults = [](const MethodInfo& info) {
    const std::unique_ptr<Method> method = info.make();
    Params params;
    method->declare(params);
    EXPECT_EQ(info.group, "base");
    EXPECT_NE(dynamic_cast<BaseMethod*>(method.get()), nullptr);
    return params.values();
  };
  EXPECT_EQ(defaults(fedadam_info()), (Json{{"lr", 0.1},
                                            {"beta1", 0.9},
                                            {"beta2", 0.99},
                                            {"tau", 1e-3},
                                            {"v_init", "zero"},
                                            {"adam_bias", "none"}}));
  EXPECT_EQ(
      defaults(fedyogi_info()),
      (Json{{"lr", 0.01}, {"beta1", 0.9}, {"beta2", 0.99}, {"tau", 1e-3}, {"v_init", "zero"}}));
  EXPECT_EQ(defaults(fedadagrad_info()),
            (Json{{"lr", 0.1}, {"beta1", 0.0}, {"tau", 1e-3}, {"v_init", "zero"}}));
  EXPECT_EQ(fedadam_info().name, "fedadam");
  EXPECT_EQ(fedyogi_info().name, "fedyogi");
  EXPECT_EQ(fedadagrad_info().name, "fedadagrad");
}

TEST(FedOpt, RefusesImpossibleValues) {
  const auto refused = [](Kind kind, const Json& table) {
    return error_text([&] { fedopt(kind, table); });
  };
  EXPECT_THAT(refused(Kind::adam, {{"tau", 0.0}}), testing::HasSubstr("method.tau"));
  EXPECT_THAT(refused(Kind::adam, {{"beta1", 1.0}}), testing::HasSubstr("method.beta1"));
  EXPECT_THAT(refused(Kind::adam, {{"v_init", "one"}}),
              testing::HasSubstr("expected one of zero, tau_squared"));
  EXPECT_THAT(refused(Kind::yogi, {{"adam_bias", "none"}}), testing::HasSubstr("adam_bias"));
  EXPECT_THAT(refused(Kind::adagrad, {{"beta2", 0.9}}), testing::HasSubstr("beta2"));
}

}  // namespace winnow::fedopt::fedopt_test

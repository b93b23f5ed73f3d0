#include "winnow/method/robust/trimmed_mean/trimmed_mean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "method/base_rounds.h"
#include "testing/support.h"
#include "winnow/base/random.h"

namespace winnow::trimmed_mean_test {

constexpr float kInf = std::numeric_limits<float>::infinity();

Upload upload_of(State model, double factor = 1.0, std::uint32_t samples = 10) {
  return {.client = 0,
          .reply = Message("train_done").set("model", std::move(model)).set("samples", samples),
          .samples = static_cast<double>(samples),
          .factor = factor};
}

State aggregate(TrimmedMean& method, const std::vector<Upload>& uploads) {
  return fuse(method, uploads.front().model(), uploads);
}

State trimmed(const std::vector<float>& values, double trim = 0.2,
              const std::vector<double>& factors = {}) {
  TrimmedMean method(trim);
  std::vector<Upload> uploads;
  for (std::size_t i = 0; i < values.size(); ++i) {
    uploads.push_back(upload_of(state_of({values[i]}), factors.empty() ? 1.0 : factors[i]));
  }
  return aggregate(method, uploads);
}

float trimmed_value(const std::vector<float>& values, double trim = 0.2,
                    const std::vector<double>& factors = {}) {
  return values_of(trimmed(values, trim, factors)).front();
}

std::vector<State> random_models(std::size_t count, std::int64_t size, std::uint64_t seed = 7) {
  const auto layout =
      std::make_shared<const Layout>(std::vector<Slot>{{"w", {size}, SlotKind::parameter, 0, 0}});
  std::vector<State> models;
  for (std::size_t i = 0; i < count; ++i) {
    State model = State::zeros(layout);
    Stream stream(seed, "model", i);
    for (std::int64_t j = 0; j < size; ++j) {
      model.flat.data_ptr<float>()[j] = static_cast<float>(1.0 + 0.1 * stream.normal());
    }
    models.push_back(model);
  }
  return models;
}

std::vector<Upload> uploads_of(const std::vector<State>& models) {
  std::vector<Upload> uploads;
  for (const State& model : models) {
    uploads.push_back(upload_of(model));
  }
  return uploads;
}

// spec: baselines 9
TEST(TrimmedMean, DropsTheSmallestAndTheLargestValues) {
  EXPECT_FLOAT_EQ(trimmed_value({1, 2, 3, 4, 100}), 3.0F);
  EXPECT_FLOAT_EQ(trimmed_value({100, 3, 1, 4, 2}), 3.0F);
}

// spec: baselines 9
TEST(TrimmedMean, DropsAFifthAtEachEndByDefault) {
  EXPECT_EQ(trimmed_per_end(0.2, 5), 1);
  EXPECT_EQ(trimmed_per_end(0.2, 10), 2);
  EXPECT_EQ(trimmed_per_end(0.2, 20), 4);
  EXPECT_EQ(trimmed_per_end(0.2, 4), 0);
  EXPECT_EQ(trimmed_per_end(0.3, 10), 3) << "0.3 * 10 is a little less than 3";
  Params params;
  TrimmedMean method;
  method.declare(params);
  EXPECT_EQ(params.find("trim")->default_value(), Json(0.2));
}

// spec: baselines 9
TEST(TrimmedMean, WithoutTrimmingIsTheUnweightedMean) {
  EXPECT_FLOAT_EQ(trimmed_value({1, 2, 3, 4, 100}, 0.0), 22.0F);
  TrimmedMean method(0.0);
  EXPECT_EQ(values_of(aggregate(
                method, {upload_of(state_of({1}), 1.0, 100), upload_of(state_of({3}), 1.0, 300)})),
            std::vector<float>{2.0F})
      << "counts are ignored";
}

// spec: baselines 9
TEST(TrimmedMean, LiesBetweenTheKeptValues) {
  const std::vector<State> models = random_models(10, 50);
  TrimmedMean method;
  const std::vector<float> result = values_of(aggregate(method, uploads_of(models)));
  for (std::size_t j = 0; j < result.size(); ++j) {
    std::vector<float> column;
    for (const State& model : models) {
      column.push_back(values_of(model)[j]);
    }
    std::ranges::sort(column);
    EXPECT_GE(result[j], column[2]);
    EXPECT_LE(result[j], column[7]);
  }
}

// spec: baselines 9
TEST(TrimmedMean, SurvivesAClientAtInfinity) {
  EXPECT_FLOAT_EQ(trimmed_value({1, 2, 3, 4, kInf}), 3.0F);
  EXPECT_FLOAT_EQ(trimmed_value({1, 2, 3, 4, -kInf}), 2.0F);
}

// spec: input-noise F9
TEST(TrimmedMean, WeighsTheSurvivorsByTheirFactors) {
  EXPECT_NEAR(trimmed_value({1, 2, 3, 5, 100}, 0.2, {2, 0.3, 2, 0.3, 2}), 3.115385, 1e-6);
  EXPECT_NEAR(trimmed_value({1, 2, 3, 5, 100}), 3.333333, 1e-6);
}

TEST(TrimmedMean, LeavesOutAnUploadOfFactorZeroBeforeTrimming) {
  EXPECT_EQ(trimmed_value({1, 2, 3, 4, 100, -50, 60}, 0.2, {1, 1, 1, 1, 1, 0, 0}),
            trimmed_value({1, 2, 3, 4, 100}));
}

TEST(TrimmedMean, TrimsBuffersAndRoundsThePlainMeanOfCounters) {
  TrimmedMean method;
  std::vector<Upload> uploads;
  for (const float value : {1.0F, 2.0F, 3.0F, 4.0F, 100.0F}) {
    uploads.push_back(upload_of(state_of({value}, {10 * value}, {value})));
  }
  EXPECT_EQ(values_of(aggregate(method, uploads)), (std::vector<float>{3, 30, 22}));
}

TEST(TrimmedMean, DropsEqualValuesInTheOrderOfUploads) {
  // Sorted: 1 (first), 1 (second), 1 (third), 5, 5; one is dropped at each end.
  EXPECT_NEAR(trimmed_value({1, 1, 1, 5, 5}, 0.2, {9, 1, 1, 2, 7}), (1 + 1 + 10) / 4.0, 1e-6);
}

TEST(TrimmedMean, RefusesToTrimEverything) {
  EXPECT_FLOAT_EQ(trimmed_value({1, 2, 90}, 0.5), 2.0F) << "of an odd number the median is left";
  EXPECT_EQ(error_text([] {
              trimmed_value({1, 2, 3, 4}, 0.5);
            }),
            "trim = 0.5 drops 2 of 4 models at each end, which leaves none | lower trim or raise "
            "federation.fraction");
  EXPECT_EQ(error_kind([] { trimmed_value({1, 2, 3, 4}, 0.5); }), ErrorKind::run);
}

// spec: baselines 9
TEST(TrimmedMean, RefusesASettingWhoseRoundsAreTrimmedAway) {
  const auto refusal = [](double trim, const Setting& setting) {
    return error_text([&] { TrimmedMean(trim).check(setting); });
  };
  EXPECT_EQ(refusal(0.5, {.clients = 4, .fraction = 1.0}),
            "federation.fraction = 1 of 4 clients: trimmed_mean drops 2 of 4 models at each end, "
            "which leaves none | raise federation.fraction or lower trim");
  EXPECT_EQ(refusal(0.5, {.clients = 5, .fraction = 1.0}), "no error");
  EXPECT_EQ(refusal(0.5, {.clients = 1, .fraction = 0.1}), "no error");
  EXPECT_EQ(refusal(0.49, {.clients = 4, .fraction = 1.0}), "no error");
  EXPECT_EQ(error_kind([] { TrimmedMean(0.5).check({.clients = 4, .fraction = 1.0}); }),
            ErrorKind::experiment);
}

TEST(TrimmedMean, RefusesARoundThatNobodyContributedTo) {
  EXPECT_EQ(error_text([] {
              trimmed_value({1, 2}, 0.2, {0, 0});
            }),
            "no client contributed to this round | lower the noise or raise federation.fraction");
}

TEST(TrimmedMean, RefusesModelsOfDifferentLayouts) {
  TrimmedMean method;
  EXPECT_EQ(error_text([&] {
              aggregate(method, {upload_of(state_of({1, 2})), upload_of(state_of({1}, {2}))});
            }),
            "models of different layouts cannot be aggregated");
}

TEST(TrimmedMean, RefusesAShareOfMoreThanAHalf) {
  TrimmedMean method;
  Params params;
  method.declare(params);
  EXPECT_THAT(error_text([&] {
                params.read({{"trim", 0.6}}, "method");
              }),
              testing::HasSubstr("method.trim = 0.6"));
}

TEST(TrimmedMean, StartsEveryRoundAfresh) {
  TrimmedMean method;
  HandRound left(state_of({0}));
  method.begin(left.round);
  method.add(left.round, upload_of(state_of({1000})));
  EXPECT_EQ(values_of(aggregate(method, {upload_of(state_of({1})), upload_of(state_of({3}))})),
            std::vector<float>{2.0F});
  EXPECT_EQ(values_of(aggregate(method, {upload_of(state_of({5}))})), std::vector<float>{5.0F});
}

TEST(TrimmedMean, PlaysARoundWithTheMessagesOfFedAvg) {
  const std::vector<float> values{1, 2, 3, 4, 100};
  FakeFleet fleet({5, 5, 5, 5, 900}, [&](std::int64_t client, const Message&) {
    return Message("train_done")
        .set("model", state_of({values[static_cast<std::size_t>(client)]}))
        .set("samples", static_cast<std::uint32_t>(client == 4 ? 900 : 5));
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 5, .fraction = 1.0, .classes = 3};
  State global = state_of({0});
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  TrimmedMean method;
  method.play(0, server);
  EXPECT_EQ(values_of(global), std::vector<float>{3.0F});
  for (std::size_t i = 0; i < fleet.asked.size(); ++i) {
    EXPECT_NO_THROW(check(fleet.asked[i].task, method.exchanges({})));
    EXPECT_NO_THROW(check(fleet.replies[i], method.exchanges({})));
  }
  EXPECT_EQ(fleet.traffic().bytes_down, 5 * (4 + 4));
  EXPECT_EQ(fleet.traffic().bytes_up, 5 * (4 + 4));
}

}  // namespace winnow::trimmed_mean_test

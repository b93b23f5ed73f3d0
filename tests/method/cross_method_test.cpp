// What the aggregation rules must have in common, whatever they do (spec: baselines 28, T1, T2 and
// T4). A rule is a base method of the registry, given the uploads of one round.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "method/base_rounds.h"
#include "testing/support.h"
#include "winnow/base/random.h"
#include "winnow/federation/robust/robust.h"
#include "winnow/federation/robust/robust_arfl.h"
#include "winnow/federation/robust/robust_distance.h"
#include "winnow/method/base_method.h"

namespace winnow::cross_method_test {

constexpr std::int64_t kSize = 300;  // more than a tile, not a multiple of it

std::unique_ptr<BaseMethod> make(const std::string& name) {
  std::unique_ptr<Method> method = builtin_methods().find(name).make();
  auto* base = dynamic_cast<BaseMethod*>(method.get());
  EXPECT_NE(base, nullptr) << name;
  method.release();
  return std::unique_ptr<BaseMethod>(base);
}

// `a` is what FedNova wants to know; the others pass it over.
Upload upload_of(std::int64_t client, const State& model, std::uint32_t samples) {
  return {client, Message("train_done").set("model", model).set("samples", samples).set("a", 5.0),
          static_cast<double>(samples)};
}

State aggregate(BaseMethod& method, const std::vector<Upload>& uploads) {
  return fuse(method, State::zeros(uploads.front().model().layout), uploads);
}
State aggregate(const std::string& name, const std::vector<Upload>& uploads) {
  return aggregate(*make(name), uploads);
}

// Values N(1, .1^2), counters of 20 and more.
std::vector<State> random_models(std::size_t count, std::uint64_t seed = 8) {
  const auto layout =
      std::make_shared<const Layout>(std::vector<Slot>{{"w", {kSize}, SlotKind::parameter, 0, 0},
                                                       {"b", {5}, SlotKind::buffer, 0, 0},
                                                       {"c", {}, SlotKind::counter, 0, 0}});
  std::vector<State> models;
  for (std::size_t k = 0; k < count; ++k) {
    Stream stream(seed, "test", k);
    State state = State::zeros(layout);
    for (std::int64_t i = 0; i < layout->total(); ++i) {
      state.flat.data_ptr<float>()[i] = static_cast<float>(1.0 + 0.1 * stream.normal());
    }
    state.counters().fill_(20.0 + static_cast<double>(k));
    models.push_back(state);
  }
  return models;
}

std::vector<Upload> uploads_of(const std::vector<State>& models) {
  std::vector<Upload> uploads;
  for (std::size_t k = 0; k < models.size(); ++k) {
    uploads.push_back(
        upload_of(static_cast<std::int64_t>(k), models[k], static_cast<std::uint32_t>(10 + 3 * k)));
  }
  return uploads;
}

double largest_difference(const State& a, const State& b) {
  return (a.flat - b.flat).abs().max().item<double>();
}

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

class AnyRule : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, AnyRule,
                         testing::Values("fedavg", "fednova", "fedavgm", "trimmed_mean", "median",
                                         "krum", "multi_krum", "bulyan", "geometric_median",
                                         "arfl"),
                         name_of);

// spec: baselines T1
TEST_P(AnyRule, OfIdenticalClientsReturnsTheirModel) {
  State model = random_models(1).front();
  model.flat[3] = 0.0;
  model.flat[4] = -1e-8;
  model.flat[5] = 3e7;
  for (const std::size_t count : {7U, 8U, 20U}) {
    std::vector<State> models;
    for (std::size_t k = 0; k < count; ++k) {
      models.push_back(model.clone());
    }
    EXPECT_EQ(hash(aggregate(GetParam(), uploads_of(models))), hash(model)) << count << " clients";
  }
}

class InvariantRule : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, InvariantRule,
                         testing::Values("fedavg", "trimmed_mean", "median", "krum", "multi_krum",
                                         "bulyan", "geometric_median", "arfl"),
                         name_of);

// spec: baselines T2
TEST_P(InvariantRule, DoesNotDependOnTheOrderOfUploads) {
  std::vector<Upload> uploads = uploads_of(random_models(11));
  const std::string before = hash(aggregate(GetParam(), uploads));
  std::ranges::reverse(uploads);
  EXPECT_EQ(hash(aggregate(GetParam(), uploads)), before);
  std::ranges::rotate(uploads, uploads.begin() + 4);
  EXPECT_EQ(hash(aggregate(GetParam(), uploads)), before);
}

// Gives the models to other clients.
void deal_again(std::vector<Upload>& uploads) {
  std::ranges::rotate(uploads, uploads.begin() + 4);
  std::swap(uploads[2], uploads[7]);
  for (std::size_t k = 0; k < uploads.size(); ++k) {
    uploads[k].client = static_cast<std::int64_t>(k);
  }
}

// Bulyan is below: with one or two bad ones its last Krum scores models by their nearest fellow, so
// that the two closest always have equal scores, and the lower id wins (spec: baselines 11 and 12).
class IdBlindRule : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, IdBlindRule,
                         testing::Values("fedavg", "trimmed_mean", "median", "krum", "multi_krum",
                                         "geometric_median", "arfl"),
                         name_of);

// spec: baselines T2
TEST_P(IdBlindRule, DoesNotDependOnWhoSendsWhichModel) {
  std::vector<Upload> uploads = uploads_of(random_models(11));
  const State before = aggregate(GetParam(), uploads);
  for (int turn = 0; turn < 3; ++turn) {
    deal_again(uploads);
    // Sums are formed in another order; 1e-6 is the rounding of a float32 of 20 and more.
    EXPECT_LE(largest_difference(aggregate(GetParam(), uploads), before), 1e-6) << turn;
  }
}

// spec: baselines T2. Without bad ones all are selected; with three no two scores are equal.
TEST(Bulyan, DoesNotDependOnWhoSendsWhichModelUnlessScoresAreEqual) {
  for (const std::int64_t byzantine : {0, 3}) {
    std::vector<Upload> uploads = uploads_of(random_models(17));
    const std::unique_ptr<BaseMethod> method = make("bulyan");
    Params params;
    method->declare(params);
    params.read({{"byzantine", byzantine}}, "method");
    const State before = aggregate(*method, uploads);
    for (int turn = 0; turn < 3; ++turn) {
      deal_again(uploads);
      EXPECT_LE(largest_difference(aggregate(*method, uploads), before), 1e-6)
          << byzantine << " bad ones, turn " << turn;
    }
  }
}

class EquivariantRule : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, EquivariantRule,
                         testing::Values("fedavg", "trimmed_mean", "median", "geometric_median"),
                         name_of);

// spec: baselines T2
TEST_P(EquivariantRule, MovesWithItsClients) {
  const std::vector<State> models = random_models(10);
  std::vector<State> moved;
  for (const State& model : models) {
    moved.push_back({model.layout, model.flat + 4.0F});
  }
  State expected = aggregate(GetParam(), uploads_of(models));
  expected.flat += 4.0F;
  EXPECT_LE(largest_difference(aggregate(GetParam(), uploads_of(moved)), expected), 3e-6);
}

// T4: nine clients N(1, .1^2) and one at a million.
class OneOutlier : public testing::TestWithParam<std::uint64_t> {
 protected:
  OneOutlier() : models_(random_models(9, GetParam())) {
    models_.push_back({models_.front().layout, at::full_like(models_.front().flat, 1e6)});
  }

  static void expect_bounds(const State& model, const std::string& rule) {
    const at::Tensor values = model.flat.narrow(0, 0, kSize + 5);
    EXPECT_GE(values.min().item<double>(), 0.6) << rule;
    EXPECT_LE(values.max().item<double>(), 1.4) << rule;
  }
  double first_after(std::int64_t reweightings) const {
    return geometric_median(models_, equal_, {.reweightings = reweightings})
        .model.flat[0]
        .item<double>();
  }

  std::vector<State> models_;
  std::vector<double> equal_ = std::vector<double>(10, 1.0);
};

INSTANTIATE_TEST_SUITE_P(Draws, OneOutlier, testing::Range<std::uint64_t>(1, 6));

TEST_P(OneOutlier, CarriesFedAvgAway) {
  WeightedMean mean;
  for (const State& model : models_) {
    mean.add(model, 1.0);
  }
  EXPECT_NEAR(mean.finish().flat[0].item<double>(), 100'001.0, 1.0);
}

TEST_P(OneOutlier, DoesNotMoveTheRulesOfSingleCoordinates) {
  expect_bounds(trimmed_mean(models_, equal_, 2), "trimmed mean");
  expect_bounds(coordinate_median(models_), "median");
}

TEST_P(OneOutlier, IsNotChosenByKrumAndBulyan) {
  const Distances distances = squared_distances(models_);
  const std::vector<double> scores = krum_scores(distances, 1);
  expect_bounds(models_[static_cast<std::size_t>(lowest(scores, 1).front())], "krum");

  std::vector<std::int64_t> nine = lowest(scores, 9);
  std::ranges::sort(nine);
  std::vector<std::int64_t> good(9);
  std::iota(good.begin(), good.end(), std::int64_t{0});
  EXPECT_EQ(nine, good) << "multi-krum";
  WeightedMean mean;
  for (const std::int64_t place : nine) {
    mean.add(models_[static_cast<std::size_t>(place)], 1.0);
  }
  expect_bounds(mean.finish(), "multi-krum");

  std::vector<State> selected;
  for (const std::int64_t place : bulyan_selection(distances, 1)) {
    EXPECT_NE(place, 9);
    selected.push_back(models_[static_cast<std::size_t>(place)]);
  }
  expect_bounds(mean_around_median(selected, std::ssize(selected) - 2), "bulyan");
}

TEST_P(OneOutlier, LetsGoOfTheGeometricMedianAfterSomePasses) {
  // Every re-weighting divides the distance by nine or so, whatever the draw.
  EXPECT_NEAR(first_after(4), 17.9, 0.3);
  EXPECT_NEAR(first_after(20), 1.0, 0.4);
  EXPECT_EQ(geometric_median(models_, equal_).passes, 5);
}

TEST_P(OneOutlier, HasNoWeightInArfl) {
  const Arfl result = arfl(models_);
  expect_bounds(result.model, "arfl");
  EXPECT_LT(result.weights.back(), 1e-9);
  EXPECT_GT(*std::ranges::min_element(result.weights.begin(), result.weights.end() - 1), 0.05);
}

}  // namespace winnow::cross_method_test

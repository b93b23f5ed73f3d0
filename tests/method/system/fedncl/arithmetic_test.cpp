#include "winnow/method/system/fedncl/arithmetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "testing/support.h"

namespace winnow::fedncl::arithmetic_test {

// The worked federation (spec: input-noise N1): distances by layer, losses, 100 samples each.
const std::vector<std::vector<double>> kDistances{{0.5, 1.0}, {0.6, 1.2}, {0.4, 0.9}, {3.0, 8.0}};
const std::vector<double> kLosses{0.5, 0.55, 0.45, 2.0};

std::vector<double> divergences_of(std::size_t client) {
  return {kDistances[client][0] + 1.0, kDistances[client][1] + 1.0};
}

std::vector<double> worked_scores(ReliabilityRule rule) {
  std::vector<double> scores;
  for (std::size_t client = 0; client < 4; ++client) {
    scores.push_back(reliability(rule, divergences_of(client), kLosses[client], 100.0));
  }
  return scores;
}

Participants worked_participants() {
  Participants participants;
  participants.scores = worked_scores(ReliabilityRule::product_mean);
  for (std::size_t client = 0; client < 4; ++client) {
    participants.divergences.push_back(divergences_of(client));
  }
  participants.samples = {100, 200, 300, 400};
  participants.flagged = flag(participants.scores, 1.0, true);
  return participants;
}

Layout two_layers() {
  return Layout({{"a.weight", {2}, SlotKind::parameter, 0, 0}, {"b.weight", {2}}});
}

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                 double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance) << "value " << i;
  }
}

// The rounding of numbers printed with six decimals.
constexpr double kSixDigits = 5.1e-7;

TEST(FedNclScore, IsDivergenceTimesLossPerSample) {  // N1
  expect_near({divergences_of(0)[0] + divergences_of(0)[1]}, {3.5}, 1e-12);
  expect_near(worked_scores(ReliabilityRule::code_literal), {0.0175, 0.0209, 0.01485, 0.26}, 1e-12);
  expect_near(worked_scores(ReliabilityRule::product_mean), {1.75, 2.09, 1.485, 26.0}, 1e-12);
}

TEST(FedNclScore, AblationsUseLossOrDivergenceAlone) {
  expect_near(worked_scores(ReliabilityRule::only_ce), {0.005, 0.0055, 0.0045, 0.02}, 1e-12);
  expect_near(worked_scores(ReliabilityRule::only_div), {0.035, 0.038, 0.033, 0.13}, 1e-12);
}

TEST(FedNclDetection, ComputesTheWorkedZScores) {  // N1
  const std::vector<double> literal = worked_scores(ReliabilityRule::code_literal);
  EXPECT_NEAR(std::accumulate(literal.begin(), literal.end(), 0.0) / 4.0, 0.0783125, 1e-12);
  const std::vector<double> z = z_scores(literal);
  EXPECT_NEAR((literal[3] - 0.0783125) / z[3], 0.1211503, 5.1e-8) << "sigma";
  for (const ReliabilityRule rule :
       {ReliabilityRule::code_literal, ReliabilityRule::product_mean}) {
    expect_near(z_scores(worked_scores(rule)), {-0.50196, -0.47390, -0.52383, 1.49969}, 1e-5);
    EXPECT_EQ(flag(worked_scores(rule), 1.0, true), (std::vector<bool>{false, false, false, true}));
  }
}

TEST(FedNclDetection, IsScaleFree) {  // N3
  const std::vector<double> scores{1.0, 1.02, 0.98, 1.01, 0.6, 1.5};
  for (const double factor : {1e-9, 0.37, 1.0, 12345.0}) {
    std::vector<double> scaled = scores;
    std::ranges::for_each(scaled, [factor](double& score) { score *= factor; });
    EXPECT_EQ(flag(scaled, 1.0, true), flag(scores, 1.0, true)) << factor;
    EXPECT_EQ(flag(scaled, 1.0, false), flag(scores, 1.0, false)) << factor;
  }
}

TEST(FedNclDetection, LargestZScoreIsBoundedByTheNumberOfClients) {  // N4
  const std::vector<std::pair<std::size_t, double>> bounds{
      {3, 1.1547}, {5, 1.7889}, {10, 2.8460}, {20, 4.2485}};
  for (const auto& [clients, bound] : bounds) {
    std::vector<double> scores(clients, 0.0);
    scores.back() = 1e6;
    EXPECT_NEAR(z_scores(scores).back(), bound, 5.1e-5);
    EXPECT_NEAR(z_scores(scores).back(),
                static_cast<double>(clients - 1) / std::sqrt(static_cast<double>(clients)), 1e-9);
  }
  EXPECT_EQ(flag(std::vector<double>{0, 0, 1e6}, 1.155, true), std::vector<bool>(3, false));
  EXPECT_EQ(flag(std::vector<double>{0, 0, 1e6}, 1.154, true),
            (std::vector<bool>{false, false, true}));
}

TEST(FedNclDetection, OneSidedSparesUnusuallyGoodClients) {  // N5
  const std::vector<double> scores{1.0, 1.02, 0.98, 1.01, 0.6, 1.5};
  EXPECT_NEAR(z_scores(scores)[4], -1.4629, 5.1e-5);
  EXPECT_NEAR(z_scores(scores)[5], 1.6843, 5.1e-5);
  EXPECT_EQ(flag(scores, 1.0, true), (std::vector<bool>{false, false, false, false, true, true}));
  EXPECT_EQ(flag(scores, 1.0, false), (std::vector<bool>{false, false, false, false, false, true}));
}

// spec: input-noise 2.3, the warning
TEST(FedNclDetection, InvertsWhenMostClientsAreNoisy) {
  const auto federation = [](std::size_t noisy) {
    std::vector<double> scores(20, 1.0);
    std::fill_n(scores.begin(), noisy, 5.0);
    return scores;
  };
  for (const std::size_t noisy : {1U, 6U, 9U, 10U, 15U}) {
    const double f = static_cast<double>(noisy) / 20.0;
    EXPECT_NEAR(z_scores(federation(noisy)).front(),
                std::sqrt((1.0 - f) / f) * std::sqrt(19.0 / 20.0), 1e-12);
  }
  std::vector<bool> first_nine(20, false);
  std::fill_n(first_nine.begin(), 9, true);
  EXPECT_EQ(flag(federation(9), 1.0, true), first_nine);
  EXPECT_EQ(flag(federation(10), 1.0, true), std::vector<bool>(20, false)) << "f = 0.5 > 0.487";

  EXPECT_NEAR(z_scores(federation(15)).back(), -1.688, 5.1e-4);
  std::vector<bool> clean_minority(20, false);
  std::fill_n(clean_minority.rbegin(), 5, true);
  EXPECT_EQ(flag(federation(15), 1.0, true), clean_minority);
  EXPECT_EQ(flag(federation(15), 1.0, false), std::vector<bool>(20, false));
}

TEST(FedNclDetection, IsStrict) {
  EXPECT_EQ(z_scores(std::vector<double>{0, 1, 2}), (std::vector<double>{-1, 0, 1}));
  EXPECT_EQ(flag(std::vector<double>{0, 1, 2}, 1.0, true), std::vector<bool>(3, false));
}

TEST(FedNclDetection, NeedsThreeClientsThatDiffer) {
  EXPECT_EQ(flag(std::vector<double>{}, 0.0, true), std::vector<bool>{});
  EXPECT_EQ(flag(std::vector<double>{7}, 0.0, true), std::vector<bool>(1, false));
  EXPECT_EQ(flag(std::vector<double>{0, 1e9}, 0.0, true), std::vector<bool>(2, false));
  // The mean of twenty times 0.1 is not 0.1 in double precision.
  EXPECT_EQ(flag(std::vector<double>(20, 0.1), 0.0, true), std::vector<bool>(20, false));
}

TEST(FedNclPenalty, RisesAfterThePenaltyRounds) {  // N6
  for (const std::int64_t round : {0, 10, 60}) {
    EXPECT_EQ(penalty(round, 60, 10, 50), 10.0) << round;
  }
  for (const std::int64_t round : {61, 100, 149}) {
    EXPECT_EQ(penalty(round, 60, 10, 50), 50.0) << round;
  }
}

TEST(FedNclPenalty, FollowsTheRoundBetweenItsBounds) {
  EXPECT_EQ(penalty(149, 1000, 10, 50), 14.9);
  EXPECT_EQ(penalty(700, 1000, 10, 50), 50.0);
  EXPECT_EQ(penalty(5, 5, 3, 4), 3.0);
  EXPECT_EQ(penalty(6, 5, 3, 4), 4.0);
}

// As the release has it: the lower bound is the divisor too.
TEST(FedNclPenalty, IsTheRoundDividedByTheLowerBound) {
  EXPECT_EQ(penalty(60, 60, 5, 50), 12.0);
  EXPECT_EQ(penalty(24, 60, 5, 50), 5.0);
  EXPECT_EQ(penalty(30, 60, 1, 50), 30.0);
  EXPECT_EQ(penalty(60, 60, 1, 50), 50.0);
  EXPECT_EQ(penalty(300, 1000, 20, 50), 20.0);
  EXPECT_EQ(penalty(500, 1000, 20, 50), 25.0);
}

TEST(FedNclWeights, ReproduceTheWorkedNumbers) {  // N2
  const Participants participants = worked_participants();
  auto weights = slot_weights(WeightRule::layerwise, two_layers(), participants, 10.0);
  expect_near(weights[0], {0.328253, 0.307737, 0.351700, 0.012309}, kSixDigits);
  expect_near(weights[1], {0.335127, 0.304661, 0.352765, 0.007447}, kSixDigits);
  weights = slot_weights(WeightRule::layerwise, two_layers(), participants, 1.0);
  expect_near(weights[0], {0.295515, 0.277045, 0.316623, 0.110818}, kSixDigits);
  expect_near(weights[1], {0.314076, 0.285523, 0.330606, 0.069795}, kSixDigits);
  weights = slot_weights(WeightRule::layerwise, two_layers(), participants, 50.0);
  EXPECT_NEAR(weights[0][3], 0.002486, kSixDigits);
  EXPECT_NEAR(weights[1][3], 0.001498, kSixDigits);
}

TEST(FedNclWeights, OfEverySlotSumToOne) {  // N3
  const Layout layout({{"conv.weight", {2, 1, 1, 1}, SlotKind::parameter, 0, 0},
                       {"fc.weight", {2, 2}},
                       {"conv.count", {}, SlotKind::counter}});
  for (const WeightRule rule :
       {WeightRule::layerwise, WeightRule::whole_model, WeightRule::classifier_only,
        WeightRule::equal, WeightRule::samples}) {
    for (const double tau : {1.0, 10.0, 50.0}) {
      for (const auto& row : slot_weights(rule, layout, worked_participants(), tau)) {
        EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1.0, 1e-15);
      }
    }
  }
}

TEST(FedNclWeights, ApplyInverseDivergenceWhenNobodyIsFlagged) {
  Participants participants = worked_participants();
  participants.flagged.assign(4, false);
  const auto weights = slot_weights(WeightRule::layerwise, two_layers(), participants, 10.0);
  expect_near(weights[0], {0.295515, 0.277045, 0.316623, 0.110818}, kSixDigits);
}

TEST(FedNclWeights, CountersThatAreNoEntriesWeighEqually) {
  const Layout layout({{"a.weight", {2}, SlotKind::parameter, 0, 0},
                       {"a.mean", {2}, SlotKind::buffer},
                       {"a.count", {}, SlotKind::counter}});
  const auto weights = slot_weights(WeightRule::layerwise, layout, worked_participants(), 10.0);
  ASSERT_EQ(weights.size(), 3U);
  EXPECT_NEAR(weights[1][3], 0.007447, kSixDigits) << "running statistics are an entry";
  EXPECT_EQ(weights[2], std::vector<double>(4, 0.25));
}

TEST(FedNclWeights, WholeModelUsesTheScoreForEveryEntry) {
  const auto weights =
      slot_weights(WeightRule::whole_model, two_layers(), worked_participants(), 10.0);
  // 1/Q = 1/1.75, 1/2.09, 1/1.485, 1/26 without a penalty.
  const double total = 1 / 1.75 + 1 / 2.09 + 1 / 1.485 + 1 / 26.0;
  for (const auto& row : weights) {
    expect_near(row, {1 / 1.75 / total, 1 / 2.09 / total, 1 / 1.485 / total, 1 / 26.0 / total},
                1e-12);
  }
}

TEST(FedNclWeights, WholeModelGivesAScoreOfZeroTheWholeWeight) {
  expect_near(inverse_weights(std::vector<double>{0.0, 2.0, 0.0}), {0.5, 0.0, 0.5}, 0.0);
}

TEST(FedNclWeights, ClassifierOnlyLeavesTheOtherEntriesEqual) {
  const Layout layout(
      {{"conv.weight", {2, 1, 1, 1}, SlotKind::parameter, 0, 0}, {"fc.weight", {2, 2}}});
  const auto weights =
      slot_weights(WeightRule::classifier_only, layout, worked_participants(), 10.0);
  EXPECT_EQ(weights[0], std::vector<double>(4, 0.25));
  expect_near(weights[1], {0.335127, 0.304661, 0.352765, 0.007447}, kSixDigits);
}

std::vector<std::string> classifier_names(const Layout& layout) {
  std::vector<std::string> names;
  const std::vector<bool> classifier = classifier_slots(layout);
  for (std::size_t slot = 0; slot < classifier.size(); ++slot) {
    if (classifier[slot]) {
      names.push_back(layout.slots()[slot].name);
    }
  }
  return names;
}

TEST(FedNclClassifier, IsTheFullyConnectedEndOfTheNetwork) {
  const NetShape grey{10, 1, 28, 28};
  using Names = std::vector<std::string>;
  EXPECT_EQ(
      classifier_names(*builtin_networks().find("lenet5_valid").make(grey)->weights().layout()),
      (Names{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "fc3.weight", "fc3.bias"}));
  EXPECT_EQ(classifier_names(
                *builtin_networks().find("resnet18").make({10, 3, 32, 32})->weights().layout()),
            (Names{"fc.weight", "fc.bias"}));
  EXPECT_EQ(classifier_names(*NormNet(grey).weights().layout()), (Names{"fc.weight", "fc.bias"}));
  EXPECT_EQ(classifier_names(*state_of({1}, {2}, {3}).layout), Names{});
}

// spec: input-noise 2.7, the sizes of Fed-NCL's networks
TEST(FedNclEntries, AreTheTensorsOfTheState) {
  const auto lenet =
      builtin_networks().find("lenet5_valid").make({10, 1, 28, 28})->weights().layout();
  EXPECT_EQ(lenet->parameters(), 44426);
  const State state = State::zeros(lenet);
  EXPECT_EQ(divergences(state, state, false), std::vector<double>(10, 1.0));
}

TEST(FedNclEntries, MeasureEveryTensorByItself) {
  const State global = state_of({1, 1}, {0, 0}, {7});
  const State model = state_of({4, 5}, {0, 2}, {12});
  EXPECT_EQ(divergences(global, model, false), (std::vector<double>{6, 3}));
  EXPECT_EQ(divergences(global, model, true), (std::vector<double>{6, 3, 6}));
}

TEST(FedNclEntries, StayFiniteForHugeValues) {
  const float huge = std::numeric_limits<float>::max();
  const std::vector<double> far = divergences(state_of({-huge}), state_of({huge}), false);
  EXPECT_TRUE(std::isfinite(far.front()));
}

TEST(FedNclEntries, RefuseAnotherLayout) {
  EXPECT_EQ(error_text([] {
              divergences(state_of({1}), state_of({1, 2}), false);
            }),
            "models of different layouts cannot be averaged");
  const std::vector<State> models{state_of({1}), state_of({1, 2})};
  EXPECT_EQ(error_kind([&] { combine(models, {{0.5, 0.5}}); }), ErrorKind::peer);
}

TEST(FedNclCombine, WeighsEverySlotByItself) {
  const std::vector<State> models{state_of({8, 0}, {4}, {10}), state_of({0, 16}, {8}, {13})};
  const State mean = combine(models, {{0.25, 0.75}, {0.5, 0.5}, {0.5, 0.5}});
  EXPECT_EQ(values_of(mean), (std::vector<float>{2, 12, 6, 12})) << "11.5 is rounded to even";
  EXPECT_EQ(values_of(models[0]), (std::vector<float>{8, 0, 4, 10})) << "nothing in place";
}

TEST(FedNclCombine, OfEqualModelsIsThatModel) {  // N3
  const State model = state_of({0.1F, -3.3F, 1e-20F}, {0.7F}, {5});
  const std::vector<State> models(7, model);
  Participants participants;
  participants.scores.assign(7, 2.0);
  participants.divergences.assign(7, divergences(model, model, false));
  participants.flagged = flag(participants.scores, 1.0, true);
  const auto weights = slot_weights(WeightRule::layerwise, *model.layout, participants, 10.0);
  for (const auto& row : weights) {
    expect_near(row, std::vector<double>(7, 1.0 / 7.0), 1e-15);
  }
  EXPECT_EQ(hash(combine(models, weights)), hash(model));
}

TEST(FedNclCorrection, BelievesAProbabilityOfNineTenths) {  // N7
  const at::Tensor given = at::full({1}, 2, at::kLong);
  const auto corrected = [&given](std::vector<float> p) {
    return numbers_of(confident_labels(at::tensor(p).view({1, 3}), given, 0.9)).front();
  };
  EXPECT_EQ(corrected({0.90F, 0.06F, 0.04F}), 0);
  EXPECT_EQ(corrected({0.899F, 0.061F, 0.04F}), 2);
  EXPECT_EQ(corrected({0.05F, 0.95F, 0.0F}), 1) << "from the given label again";
  EXPECT_EQ(corrected({0.3F, 0.4F, 0.3F}), 2);
  EXPECT_EQ(numbers_of(given).front(), 2);
}

TEST(FedNclCorrection, KeepsTheGivenLabelOfAnOutputThatIsNotANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor p = at::full({1, 3}, nan);
  EXPECT_EQ(numbers_of(confident_labels(p, at::full({1}, 2, at::kLong), 0.0)).front(), 2);
}

}  // namespace winnow::fedncl::arithmetic_test

#include "winnow/method/system/fedcorr/arithmetic.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "testing/support.h"
#include "winnow/federation/selection.h"
#include "winnow/stats/mixture.h"
#include "winnow/train/sgd.h"

namespace winnow::fedcorr::rules_test {

using testing::ElementsAre;
using testing::IsEmpty;

Options options_of(const Json& table) {
  Options options;
  Params params;
  declare(options, params);
  params.read(table, "method");
  return options;
}

// Client participations of a whole run, in the paper's unit.
std::int64_t total_participations(const Options& options, std::int64_t clients, double fraction) {
  const Schedule schedule(options, clients);
  std::int64_t total = 0;
  for (std::int64_t round = 0; round < schedule.rounds(); ++round) {
    const Step step = schedule.step(round);
    total += step.stage == 1 ? static_cast<std::int64_t>(schedule.turn_clients(step, 1).size())
                             : participants(fraction, clients);
  }
  return total;
}

// spec: label-noise A.4, total communication cost
TEST(FedCorrSchedule, CostsAsManyParticipationsAsThePaperSays) {
  EXPECT_EQ(Schedule(Options{}, 100).rounds(), 5 * 100 + 500 + 450);
  EXPECT_EQ(total_participations({}, 100, 0.1), 10000);
  const Options cifar100{.iterations = 10, .finetune_rounds = 450, .usual_rounds = 450};
  EXPECT_EQ(total_participations(cifar100, 50, 0.1), 5000);
  const Options clothing{.iterations = 2, .finetune_rounds = 50, .usual_rounds = 50};
  EXPECT_EQ(total_participations(clothing, 500, 0.02), 2000);
  EXPECT_EQ(total_participations({.finetune_rounds = 0}, 100, 0.1), 5000) << "no finetuning";
  EXPECT_EQ(total_participations({.stage1_fraction = 0.1}, 100, 0.1), 10000);
}

TEST(FedCorrSchedule, PutsTheStagesOneAfterTheOther) {
  const Schedule schedule({.iterations = 2, .finetune_rounds = 2, .usual_rounds = 1}, 3);
  ASSERT_EQ(schedule.rounds(), 9);
  std::vector<std::vector<std::int64_t>> steps;
  for (std::int64_t round = 0; round < 9; ++round) {
    const Step step = schedule.step(round);
    steps.push_back({step.stage, step.iteration, step.turn, step.last ? 1 : 0});
  }
  EXPECT_THAT(
      steps,
      ElementsAre(ElementsAre(1, 0, 0, 0), ElementsAre(1, 0, 1, 0), ElementsAre(1, 0, 2, 1),
                  ElementsAre(1, 1, 0, 0), ElementsAre(1, 1, 1, 0), ElementsAre(1, 1, 2, 1),
                  ElementsAre(2, 0, 0, 0), ElementsAre(2, 0, 0, 1), ElementsAre(3, 0, 0, 1)));
}

// spec: label-noise A.4 #15, A.7 #12
TEST(FedCorrSchedule, VisitsEveryClientOncePerIterationInAnOrderOfItsOwn) {
  for (const double fraction : {0.0, 0.01, 0.1, 0.3, 1.0}) {
    const std::int64_t clients = 23;
    const Schedule schedule({.iterations = 3, .stage1_fraction = fraction}, clients);
    const auto chunk = static_cast<std::size_t>(participants(fraction, clients));
    std::set<std::vector<std::int64_t>> orders;
    for (std::int64_t iteration = 0; iteration < 3; ++iteration) {
      std::vector<std::int64_t> order;
      for (std::int64_t turn = 0; turn < schedule.turns(); ++turn) {
        const Step step = schedule.step(iteration * schedule.turns() + turn);
        const std::vector<std::int64_t> chosen = schedule.turn_clients(step, 7);
        EXPECT_LE(chosen.size(), chunk);
        EXPECT_GE(chosen.size(), 1U);
        order.insert(order.end(), chosen.begin(), chosen.end());
      }
      EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 23U);
      EXPECT_EQ(order.size(), 23U);
      orders.insert(order);
    }
    EXPECT_EQ(orders.size(), 3U);
  }
}

TEST(FedCorrSchedule, WithoutFractionSchedulingIsTenTurnsOfTen) {
  const Schedule schedule({.stage1_fraction = 0.1}, 100);
  EXPECT_EQ(schedule.turns(), 10);
  EXPECT_EQ(schedule.turn_clients(schedule.step(3), 1).size(), 10U);
  EXPECT_EQ(Schedule({.stage1_fraction = 0.3}, 7).turns(), 4) << "2, 2, 2, 1";
}

// spec: label-noise A.4 #15
TEST(FedCorrSchedule, TheCodesDrawMissesSomeAndRepeatsOthersInsideARound) {
  const Schedule schedule(
      {.iterations = 5, .stage1_fraction = 0.1, .stage1_draw = fedcorr::Draw::code}, 100);
  EXPECT_EQ(schedule.turns(), 10);
  std::int64_t missed = 0;
  for (std::int64_t iteration = 0; iteration < 5; ++iteration) {
    std::set<std::int64_t> before;
    for (std::int64_t turn = 0; turn < 10; ++turn) {
      const std::vector<std::int64_t> drawn =
          schedule.turn_clients(schedule.step(10 * iteration + turn), 7);
      EXPECT_EQ(drawn.size(), 10U);
      for (const std::int64_t client : drawn) {
        EXPECT_FALSE(before.contains(client)) << "has had its turn in an earlier round";
      }
      before.insert(drawn.begin(), drawn.end());
    }
    missed += 100 - static_cast<std::int64_t>(before.size());
  }
  EXPECT_GT(missed, 0);
  EXPECT_LT(missed, 5 * 30) << "about nine of a hundred in an iteration";
}

TEST(FedCorrSchedule, OneByOneTheCodesDrawVisitsEverybody) {
  const Schedule schedule({.iterations = 1, .stage1_draw = fedcorr::Draw::code}, 12);
  std::set<std::int64_t> seen;
  for (std::int64_t turn = 0; turn < 12; ++turn) {
    const std::vector<std::int64_t> drawn = schedule.turn_clients(schedule.step(turn), 7);
    EXPECT_EQ(drawn.size(), 1U);
    seen.insert(drawn.begin(), drawn.end());
  }
  EXPECT_EQ(seen.size(), 12U);
}

TEST(FedCorrSchedule, CountsTheRoundsOfStageThree) {
  const Schedule schedule({.iterations = 2, .finetune_rounds = 3, .usual_rounds = 4}, 5);
  EXPECT_EQ(schedule.usual_round(13), 0);
  EXPECT_EQ(schedule.usual_round(16), 3);
}

// spec: label-noise A.7 #6
TEST(FedCorrLosses, DoubleSoftmaxGivesTheWorkedNumbers) {
  const at::Tensor logits = at::tensor({2.0F, 0.5F, -1.0F}).repeat({3, 1});
  const at::Tensor labels = at::arange(3, at::kLong);
  const std::vector<float> twice = values_of(sample_losses(logits, labels, {}));
  const std::vector<float> once =
      values_of(sample_losses(logits, labels, {.loss = fedcorr::Loss::ce}));
  const std::vector<double> expected_twice{0.70171754, 1.31202418, 1.44820200};
  const std::vector<double> expected_once{0.24131130, 1.74131130, 3.24131130};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(twice[i], expected_twice[i], 1e-6);
    EXPECT_NEAR(once[i], expected_once[i], 1e-6);
  }
}

// spec: label-noise A.7 #6
TEST(FedCorrLosses, DoubleSoftmaxIsBoundedForTenClasses) {
  at::Tensor logits = at::zeros({3, 10});
  logits[0][4] = 1000.0F;
  logits[1][5] = 1000.0F;
  const at::Tensor labels = at::full({3}, 4, at::kLong);
  const std::vector<float> values = values_of(sample_losses(logits, labels, {}));
  EXPECT_NEAR(values[0], 1.46115017, 1e-6) << "one-hot, right";
  EXPECT_NEAR(values[1], 2.46115017, 1e-6) << "one-hot, wrong";
  EXPECT_NEAR(values[2], 2.30258509, 1e-6) << "uniform";
}

std::map<std::int64_t, Trail> trails_of(const std::vector<std::vector<double>>& iterations) {
  std::map<std::int64_t, Trail> trails;
  for (const auto& lids : iterations) {
    for (std::size_t client = 0; client < lids.size(); ++client) {
      Trail& trail = trails[static_cast<std::int64_t>(client)];
      trail.sum += lids[client];
      ++trail.seen;
    }
  }
  return trails;
}

// spec: label-noise A.7 #7
TEST(FedCorrDetection, FlagsByTheCumulativeLid) {
  const std::vector<double> first{4.0, 4.2, 5.9, 4.1, 6.3, 4.3};
  const std::vector<double> second{3.0, 3.1, 4.4, 4.2, 4.6, 3.2};
  EXPECT_THAT(noisy_clients(lid_scores(trails_of({first}))), ElementsAre(2, 4));
  EXPECT_THAT(noisy_clients(lid_scores(trails_of({second}))), ElementsAre(2, 3, 4))
      << "the second iteration alone";
  const std::map<std::int64_t, double> scores = lid_scores(trails_of({first, second}));
  std::vector<double> values;
  for (const auto& [client, score] : scores) {
    values.push_back(score);
  }
  const std::vector<double> expected{7.0, 7.3, 10.3, 8.3, 10.9, 7.5};
  for (std::size_t client = 0; client < 6; ++client) {
    EXPECT_NEAR(values[client], expected[client], 1e-12);
  }
  EXPECT_THAT(noisy_clients(scores), ElementsAre(2, 4));
  const Mixture mixture = gmm2(values);
  EXPECT_NEAR(mixture.means[0], 7.52500009, 1e-6);
  EXPECT_NEAR(mixture.means[1], 10.60000002, 1e-6);
}

// spec: label-noise D
TEST(FedCorrDetection, TakesMeansWhenAClientMissedAnIteration) {
  std::map<std::int64_t, Trail> trails{{0, {8, 2}}, {3, {8.4, 2}}, {5, {12, 2}}, {7, {8, 2}}};
  EXPECT_EQ(lid_scores(trails).at(5), 12.0) << "all seen twice: the sum";
  trails[9] = {6.1, 1};
  const std::map<std::int64_t, double> scores = lid_scores(trails);
  EXPECT_EQ(scores.at(0), 4.0);
  EXPECT_EQ(scores.at(5), 6.0);
  EXPECT_EQ(scores.at(9), 6.1);
  EXPECT_THAT(noisy_clients(scores), ElementsAre(5, 9)) << "a sum of 6.1 would look clean";
}

TEST(FedCorrDetection, FlagsNobodyWhereNothingTellsClientsApart) {
  EXPECT_THAT(noisy_clients({}), IsEmpty());
  EXPECT_THAT(noisy_clients({{4, 3.5}}), IsEmpty());
  EXPECT_THAT(noisy_clients({{4, 3.5}, {5, 3.5}, {6, 3.5}}), IsEmpty());
  EXPECT_THAT(lid_scores({}), IsEmpty());
}

const std::vector<double> kWorkedLosses{1.47, 1.48, 1.49, 1.50, 1.52, 1.55, 2.30, 2.40, 2.42, 2.45};

// spec: label-noise A.7 #8
TEST(FedCorrRelabel, GivesTheWorkedNumbers) {
  const Mixture mixture = gmm2(kWorkedLosses);
  EXPECT_NEAR(mixture.means[0], 1.50166667, 1e-6);
  EXPECT_NEAR(mixture.means[1], 2.39250000, 1e-6);
  const double estimate = estimate_noise(suspects(kWorkedLosses));
  EXPECT_DOUBLE_EQ(estimate, 0.4);
  const std::int64_t count = relabel_count(10, estimate, 0.5);
  EXPECT_EQ(count, 2);
  const std::vector<std::int64_t> places = largest(kWorkedLosses, count);
  EXPECT_THAT(places, ElementsAre(9, 8));

  Prediction prediction{std::vector<float>(10, 0.99F), std::vector<std::int64_t>(10, 5)};
  prediction.confidence[9] = 0.50F;
  prediction.label[9] = 3;
  prediction.confidence[8] = 0.81F;
  prediction.label[8] = 7;
  std::vector<std::int64_t> labels(10, 0);
  EXPECT_EQ(relabel(labels, places, prediction, {}), 1);
  EXPECT_THAT(labels, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 7, 0));
  labels.assign(10, 0);
  EXPECT_EQ(
      relabel(labels, places, prediction, {.confidence_test = fedcorr::ConfidenceTest::at_least}),
      2);
  EXPECT_THAT(labels, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 7, 3));
}

TEST(FedCorrRelabel, CountsOnlyLabelsThatChange) {
  const Prediction prediction{{0.9F, 0.9F}, {1, 2}};
  std::vector<std::int64_t> labels{1, 1};
  EXPECT_EQ(relabel(labels, std::vector<std::int64_t>{0, 1}, prediction, {}), 1);
  EXPECT_THAT(labels, ElementsAre(1, 2));
}

// spec: label-noise A.7 #12
TEST(FedCorrRelabel, WithThetaOneChangesNothing) {
  const Prediction prediction{{1.0F, 0.9999F}, {1, 1}};
  std::vector<std::int64_t> labels{0, 0};
  EXPECT_EQ(relabel(labels, std::vector<std::int64_t>{0, 1}, prediction, {.theta = 1.0}), 0);
  EXPECT_THAT(labels, ElementsAre(0, 0));
}

// spec: label-noise 0.4
TEST(FedCorrRelabel, CountsAreNotLostToRounding) {
  EXPECT_LT(47 * (6.0 / 47.0) * 0.5, 3.0) << "what the guard is for";
  EXPECT_EQ(relabel_count(47, 6.0 / 47.0, 0.5), 3);
  EXPECT_EQ(relabel_count(10, 0.3, 0.5), 1);
  EXPECT_EQ(relabel_count(10, 0.0, 0.5), 0);
  EXPECT_EQ(relabel_count(0, 0.5, 0.5), 0);
}

TEST(FedCorrRelabel, TakesTheLargestLossesTiesToTheFirst) {
  EXPECT_THAT(largest(std::vector<double>{1, 3, 2, 3, 0}, 3), ElementsAre(1, 3, 2));
  EXPECT_THAT(largest(std::vector<double>{1, 2}, 0), IsEmpty());
  EXPECT_THAT(largest(std::vector<double>{1, 2}, 9), ElementsAre(1, 0));
}

// spec: label-noise 0.3 GW: low losses may be called noisy, the ranking is by loss all the same
TEST(FedCorrRelabel, RanksByLossWhateverTheMixtureCallsNoisy) {
  const std::vector<double> losses{.49,  .50,  .51,  .50,  .49, .51, .50,  .495, .505, .50,
                                   .498, .502, .497, .503, .40, .80, 1.20, 1.60, 2.00};
  EXPECT_DOUBLE_EQ(estimate_noise(suspects(losses)), 5.0 / 19.0);
  EXPECT_THAT(largest(losses, relabel_count(19, 5.0 / 19.0, 1.0)), ElementsAre(18, 17, 16, 15, 2));
}

// The same losses: of the noisy ones alone, the low loss 14 is the last instead of sample 2.
TEST(FedCorrRelabel, RanksTheNoisySamplesAloneWhenTold) {
  const std::vector<double> losses{.49,  .50,  .51,  .50,  .49, .51, .50,  .495, .505, .50,
                                   .498, .502, .497, .503, .40, .80, 1.20, 1.60, 2.00};
  const std::vector<bool> split = suspects(losses);
  EXPECT_THAT(relabel_places(losses, split, 5, {}), ElementsAre(18, 17, 16, 15, 2));
  const Options noisy{.candidates = fedcorr::Candidates::noisy};
  EXPECT_THAT(relabel_places(losses, split, 5, noisy), ElementsAre(18, 17, 16, 15, 14));
  EXPECT_THAT(relabel_places(losses, split, 2, noisy), ElementsAre(18, 17));
  // Ranked by something else, the noisy ones are still those of the losses.
  std::vector<double> ranks(19, 0.0);
  ranks[0] = 9.0;
  ranks[15] = 2.0;
  EXPECT_THAT(relabel_places(ranks, split, 2, noisy), ElementsAre(15, 14));
  EXPECT_THAT(relabel_places(ranks, split, 2, {}), ElementsAre(0, 15));
}

TEST(FedCorrRelabel, EqualOrNoLossesMeanNoNoise) {
  EXPECT_EQ(estimate_noise({}), 0.0);
  EXPECT_EQ(estimate_noise(suspects(std::vector<double>{2.0})), 0.0);
  EXPECT_EQ(estimate_noise(suspects(std::vector<double>(7, 1.5))), 0.0);
}

// spec: label-noise A.7 #9
TEST(FedCorrSets, FollowTheWorkedExample) {
  const std::map<std::int64_t, double> estimates{{0, 0}, {1, 0}, {2, .08}, {3, .35}, {4, .10}};
  const std::vector<std::int64_t> noisy{2, 3, 4};
  EXPECT_THAT(finetune_pool(estimates, {}, 1), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(final_clients(noisy, estimates, {}), ElementsAre(2, 3, 4));
  EXPECT_THAT(final_clients(noisy, estimates, {.final_set = fedcorr::FinalSet::paper}),
              ElementsAre(3));
}

// spec: label-noise A.4 #9: the paper's listing
TEST(FedCorrSets, LeaveOutAnEstimateOfKappaWhenTold) {
  const std::map<std::int64_t, double> estimates{{0, 0}, {1, 0}, {2, .08}, {3, .35}, {4, .10}};
  const Options below{.kappa_test = fedcorr::KappaTest::below,
                      .final_set = fedcorr::FinalSet::paper};
  EXPECT_THAT(finetune_pool(estimates, below, 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(final_clients({}, estimates, below), ElementsAre(3, 4)) << "all the others";
}

// spec: label-noise A.4 #18
TEST(FedCorrSets, FallBackToTheLeastNoisyWhenNobodyIsClean) {
  const std::map<std::int64_t, double> estimates{{1, .5}, {2, .2}, {4, .9}, {6, .2}, {7, .3}};
  EXPECT_THAT(finetune_pool(estimates, {}, 1), ElementsAre(2));
  EXPECT_THAT(finetune_pool(estimates, {}, 2), ElementsAre(2, 6));
  EXPECT_THAT(finetune_pool(estimates, {}, 3), ElementsAre(2, 6, 7));
  EXPECT_THAT(finetune_pool(estimates, {}, 99), ElementsAre(1, 2, 4, 6, 7));
  EXPECT_EQ(fallback_size(0.1, 100), 10);
  EXPECT_EQ(fallback_size(0.1, 101), 11);
  EXPECT_EQ(fallback_size(0.29, 100), 29) << "not 30 by rounding";
  EXPECT_EQ(fallback_size(0.0, 100), 1);
}

std::vector<float> pull_gradient(const LocalRule& rule) {
  at::Tensor weights = at::tensor({1.0F, 0.0F, 4.5F});
  at::Tensor gradient = at::zeros({3});
  at::Tensor velocity = at::zeros({3});
  const at::Tensor before = weights.clone();
  sgd_step(weights, gradient, velocity, at::tensor({1.0F, 2.0F, 3.0F}),
           {.lr = 1.0, .proximal = rule.proximal, .pull = rule.pull}, true);
  return values_of(before - weights);
}

// By Euler's theorem the gradient times the distance is the value times its degree.
double times_distance(const std::vector<float>& gradient) {
  return gradient[1] * -2.0 + gradient[2] * 1.5;
}

// spec: label-noise A.7 #10
TEST(FedCorrPull, GivesTheWorkedNumbers) {
  const LocalRule norm = stage1_rule({}, 0.4);
  EXPECT_TRUE(norm.spare_first_batch);
  const std::vector<float> by_norm = pull_gradient(norm);
  EXPECT_EQ(by_norm[0], 0.0F);
  EXPECT_NEAR(by_norm[1], -1.6, 1e-6);
  EXPECT_NEAR(by_norm[2], 1.2, 1e-6);
  EXPECT_NEAR(times_distance(by_norm), 5.0, 1e-5);

  const LocalRule squared = stage1_rule({.pull = Pull::square}, 0.4);
  EXPECT_FALSE(squared.spare_first_batch) << "the paper's equation has no such exception";
  const std::vector<float> by_square = pull_gradient(squared);
  EXPECT_EQ(by_square[0], 0.0F);
  EXPECT_NEAR(by_square[1], -8.0, 1e-6);
  EXPECT_NEAR(by_square[2], 6.0, 1e-6);
  EXPECT_NEAR(times_distance(by_square), 2.0 * 12.5, 1e-4);
}

TEST(FedCorrPull, IsNothingForACleanClientOrWithoutBeta) {
  for (const Pull pull : {Pull::norm, Pull::square}) {
    EXPECT_EQ(stage1_rule({.pull = pull}, 0.0).proximal, 0.0);
    EXPECT_EQ(stage1_rule({.beta = 0.0, .pull = pull}, 0.4).proximal, 0.0);
  }
}

TEST(FedCorrOptions, DefaultToThePapersCifar10Values) {
  Options options;
  Params params;
  declare(options, params);
  const Json expected{{"iterations", 5},
                      {"finetune_rounds", 500},
                      {"usual_rounds", 450},
                      {"stage1_fraction", 0.0},
                      {"stage1_draw", "once"},
                      {"beta", 5.0},
                      {"pull", "norm"},
                      {"mixup", 1.0},
                      {"mixup_stage1_only", false},
                      {"usual_lr", 0.0},
                      {"usual_lr_decay", 1.0},
                      {"lid_neighbours", 20},
                      {"loss", "double_softmax"},
                      {"kappa", 0.1},
                      {"kappa_test", "<="},
                      {"score_view", "augmented"},
                      {"correction", true},
                      {"theta", 0.5},
                      {"confidence_test", ">"},
                      {"relabel_ratio", 0.5},
                      {"rank", "local"},
                      {"candidates", "all"},
                      {"final_set", "code"},
                      {"final_theta", -1.0}};
  EXPECT_EQ(params.values(), expected);
  for (const Param& param : params.all()) {
    EXPECT_FALSE(param.source().empty()) << param.name();
  }
}

TEST(FedCorrOptions, RefuseImpossibleValues) {
  const auto refused = [](const Json& table) { return error_text([&] { options_of(table); }); };
  EXPECT_THAT(refused({{"iterations", 0}}), testing::HasSubstr("method.iterations = 0"));
  EXPECT_THAT(refused({{"finetune_rounds", -1}}), testing::HasSubstr("method.finetune_rounds"));
  EXPECT_THAT(refused({{"stage1_fraction", 1.5}}), testing::HasSubstr("method.stage1_fraction"));
  EXPECT_THAT(refused({{"beta", -1.0}}), testing::HasSubstr("method.beta"));
  EXPECT_THAT(refused({{"theta", 1.5}}), testing::HasSubstr("method.theta"));
  EXPECT_THAT(refused({{"relabel_ratio", 2.0}}), testing::HasSubstr("method.relabel_ratio"));
  EXPECT_THAT(refused({{"kappa", -0.1}}), testing::HasSubstr("method.kappa"));
  EXPECT_THAT(refused({{"lid_neighbours", 0}}), testing::HasSubstr("method.lid_neighbours"));
  EXPECT_THAT(refused({{"mixup", -1.0}}), testing::HasSubstr("method.mixup"));
  EXPECT_THAT(refused({{"loss", "mse"}}), testing::HasSubstr("method.loss"));
  EXPECT_THAT(refused({{"pull", "cubed"}}), testing::HasSubstr("method.pull"));
  EXPECT_THAT(refused({{"confidence_test", "<"}}), testing::HasSubstr("method.confidence_test"));
  EXPECT_THAT(refused({{"final_set", "none"}}), testing::HasSubstr("method.final_set"));
  EXPECT_THAT(refused({{"score_view", "both"}}), testing::HasSubstr("method.score_view"));
  EXPECT_THAT(refused({{"iteratons", 2}}), testing::HasSubstr("iterations"));
}

}  // namespace winnow::fedcorr::rules_test

#include "winnow/method/system/fedncl/fedncl.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <numeric>

#include "method/system/fedncl/federation.h"
#include "testing/support.h"
#include "winnow/federation/selection.h"

namespace winnow::fedncl::fedncl_test {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kSixDigits = 5.1e-7;

// Client c has moved layer1 and layer2 along its own coordinate c by these distances from zero, so
// that its weight can be read from the next model (spec: input-noise N1).
constexpr std::array<float, 4> kFirst{0.5F, 0.6F, 0.4F, 3.0F};
constexpr std::array<float, 4> kSecond{1.0F, 1.2F, 0.9F, 8.0F};
constexpr std::array<double, 4> kLosses{0.5, 0.55, 0.45, 2.0};

LayoutPtr worked_layout() {
  return std::make_shared<const Layout>(
      std::vector<Slot>{{"layer1.weight", {4}, SlotKind::parameter, 0, 0},
                        {"layer2.weight", {2, 2}, SlotKind::parameter, 0, 0},
                        {"count", {}, SlotKind::counter, 0, 0}});
}

Federation worked_federation(const Json& parameters = {}) {
  const LayoutPtr layout = worked_layout();
  std::vector<Reply> replies;
  for (std::size_t c = 0; c < 4; ++c) {
    State model = State::zeros(layout);
    float* values = model.flat.data_ptr<float>();
    values[c] = kFirst[c];
    values[4 + c] = kSecond[c];
    values[8] = static_cast<float>(c);
    replies.push_back({model, kLosses[c]});
  }
  return Federation(State::zeros(layout), std::move(replies), parameters);
}

void expect_weights(const State& global, std::array<double, 4> first,
                    std::array<double, 4> second) {
  const std::vector<float> values = values_of(global);
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_NEAR(values[c] / kFirst[c], first[c], kSixDigits) << "layer1, client " << c;
    EXPECT_NEAR(values[4 + c] / kSecond[c], second[c], kSixDigits) << "layer2, client " << c;
  }
}

TEST(FedNclServer, WeighsTheWorkedFederation) {  // N1, N2
  Federation federation = worked_federation();
  const State start = federation.global;
  federation.play(0);
  expect_weights(federation.global, {0.328253, 0.307737, 0.351700, 0.012309},
                 {0.335127, 0.304661, 0.352765, 0.007447});
  EXPECT_EQ(values_of(federation.global)[8], 2.0F) << "rounded mean of 0, 1, 2, 3: half to even";
  EXPECT_EQ(values_of(start), std::vector<float>(9, 0.0F)) << "replaced, never changed";
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1, 2, 3}));
  EXPECT_EQ(federation.notes["flagged"], 1);
  EXPECT_EQ(federation.notes["flagged_clients"], Json::array({3}));
  EXPECT_EQ(federation.notes["corrected"], 0);
  EXPECT_EQ(federation.notes["penalty"], 10.0);
  ASSERT_EQ(federation.notes["scores"].size(), 4U);
  EXPECT_EQ(federation.notes["scores"][3][0], 3);
  EXPECT_NEAR(federation.notes["scores"][3][1].get<double>(), 26.0, 1e-5);
  EXPECT_FALSE(federation.notes.contains("rejected"));
}

TEST(FedNclServer, PenalisesFiveTimesMoreAfterThePenaltyRounds) {  // N2, N6
  Federation federation = worked_federation();
  federation.play(61);
  const std::vector<float> values = values_of(federation.global);
  EXPECT_NEAR(values[3] / kFirst[3], 0.002486, kSixDigits);
  EXPECT_NEAR(values[7] / kSecond[3], 0.001498, kSixDigits);
  EXPECT_EQ(federation.notes["penalty"], 50.0);
}

TEST(FedNclServer, WithoutPenaltyFlagsButDoesNotMultiply) {  // N2, no_penalty
  Federation federation = worked_federation({{"penalty", false}});
  federation.play(0);
  expect_weights(federation.global, {0.295515, 0.277045, 0.316623, 0.110818},
                 {0.314076, 0.285523, 0.330606, 0.069795});
  EXPECT_EQ(federation.notes["flagged_clients"], Json::array({3}));
  EXPECT_EQ(federation.notes["penalty"], 1.0);
}

TEST(FedNclServer, WholeModelWeighsByTheScore) {
  Federation federation = worked_federation({{"aggregation", "whole_model"}});
  federation.play(0);
  const double total = 1 / 1.75 + 1 / 2.09 + 1 / 1.485 + 1 / 26.0;
  const std::array<double, 4> weights{1 / 1.75 / total, 1 / 2.09 / total, 1 / 1.485 / total,
                                      1 / 26.0 / total};
  expect_weights(federation.global, weights, weights);
}

TEST(FedNclServer, ClassifierOnlyAveragesTheBodyEqually) {
  Federation federation = worked_federation({{"aggregation", "classifier_only"}});
  federation.play(0);
  expect_weights(federation.global, {0.25, 0.25, 0.25, 0.25},
                 {0.335127, 0.304661, 0.352765, 0.007447});
}

// Detection and correction beside a plain mean, an ablation of the release.
TEST(FedNclServer, APlainMeanLeavesFlagsWithoutWeight) {
  Federation equal = worked_federation({{"aggregation", "equal"}});
  equal.play(0);
  expect_weights(equal.global, {0.25, 0.25, 0.25, 0.25}, {0.25, 0.25, 0.25, 0.25});
  EXPECT_EQ(equal.notes["flagged_clients"], Json::array({3}));

  Federation samples = worked_federation({{"aggregation", "samples"}});
  samples.replies[0].samples = 500;
  samples.play(0);
  expect_weights(samples.global, {0.625, 0.125, 0.125, 0.125}, {0.625, 0.125, 0.125, 0.125});
  EXPECT_EQ(samples.notes["flagged_clients"], Json::array({3}));
}

TEST(FedNclServer, LiteralCounterMakesTheCounterALayer) {
  Federation federation = worked_federation({{"literal_counter", true}});
  federation.play(0);
  // Counters 0, 1, 2, 3 from 0: divergences 1, 2, 3, 4, so D = 4.5, 5.8, 6.3, 17.
  EXPECT_NEAR(federation.notes["scores"][0][1].get<double>(), 4.5 * 0.5, 1e-6);
  EXPECT_NEAR(federation.notes["scores"][3][1].get<double>(), 17.0 * 2.0, 1e-5);
  // Weights 1, 1/2, 1/3, 1/40 over 1.858333: a mean of 0.6682.
  EXPECT_EQ(values_of(federation.global)[8], 1.0F);
}

TEST(FedNclServer, OneSidedSparesTheUnusuallyGoodClient) {  // N5
  const std::vector<double> losses{1.0, 1.02, 0.98, 1.01, 0.6, 1.5};
  Federation two_sided(state_of({0}), with_losses(losses));
  two_sided.play();
  EXPECT_EQ(two_sided.notes["flagged_clients"], (Json{4, 5}));
  Federation one_sided(state_of({0}), with_losses(losses), {{"detection", "one_sided"}});
  one_sided.play();
  EXPECT_EQ(one_sided.notes["flagged_clients"], Json::array({5}));
}

TEST(FedNclServer, ScoresByTheNamedRule) {
  const auto score = [](const char* rule) {
    Federation federation(state_of({0}), {{state_of({1}), 0.5, 10}}, {{"score", rule}});
    federation.play();
    return federation.notes["scores"][0][1].get<double>();
  };
  EXPECT_DOUBLE_EQ(score("product_mean"), 1.0);
  EXPECT_DOUBLE_EQ(score("code_literal"), 0.1);
  EXPECT_DOUBLE_EQ(score("only_ce"), 0.05);
  EXPECT_DOUBLE_EQ(score("only_div"), 0.2);
}

TEST(FedNclServer, KeepsTheModelThatEveryClientSendsBack) {  // N3
  const State model = state_of({0.1F, -3.3F}, {0.7F}, {5});
  Federation federation(model, std::vector<Reply>(5, {model, 0.3}));
  federation.play();
  EXPECT_EQ(hash(federation.global), hash(model));
  EXPECT_EQ(federation.notes["flagged"], 0);
}

TEST(FedNclServer, FlagsNobodyOfTwoParticipants) {
  Federation federation(state_of({0}), {{state_of({1}), 0.1}, {state_of({-9}), 90.0}},
                        {{"beta", 0.0}});
  federation.play();
  EXPECT_EQ(federation.notes["flagged"], 0);
  // Weights 1/2 and 1/10, over 0.6.
  EXPECT_NEAR(values_of(federation.global)[0], 0.5 / 0.6 - 9 * 0.1 / 0.6, 1e-6);
}

TEST(FedNclServer, FlagsNobodyWhenScoresAreEqual) {
  Federation federation(state_of({0}), with_losses(std::vector<double>(7, 0.1)), {{"beta", 0.0}});
  federation.play();
  EXPECT_EQ(federation.notes["flagged"], 0);
  EXPECT_FLOAT_EQ(values_of(federation.global)[0], 1.0F);
}

TEST(FedNclServer, RejectsWhatIsNotFinite) {
  std::vector<Reply> replies = with_losses({1.0, 1.0, 1.0, 1.0, 1.0});
  replies[1].model = state_of({kNaN});
  replies[2].loss = std::numeric_limits<double>::quiet_NaN();
  replies[3].loss = std::numeric_limits<double>::infinity();
  replies[4].loss = -1.0;
  Federation federation(state_of({0}), replies);
  federation.play();
  EXPECT_EQ(federation.notes["rejected"], (Json{1, 2, 3, 4}));
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1, 2, 3, 4}));
  EXPECT_EQ(values_of(federation.global), std::vector<float>{1.0F});
  EXPECT_EQ(federation.method.findings().scores.at("flag_share").size(), 1U)
      << "a rejected reply is no participation";
}

TEST(FedNclServer, RejectsAScoreThatOverflows) {
  std::vector<Reply> replies = with_losses({1.0, 1.0, std::numeric_limits<double>::max()});
  replies[2].model = state_of({1e30F});
  Federation federation(state_of({0}), replies);
  federation.play();
  EXPECT_EQ(federation.notes["rejected"], Json::array({2}));
}

TEST(FedNclServer, GivesUpWhenEveryReplyIsRejected) {
  const State start = state_of({1, 2});
  Federation federation(start, {{state_of({kNaN, 0}), 1.0}, {state_of({0, 0}), kNaN}});
  EXPECT_EQ(error_text([&] { federation.play(7); }),
            "round 8: every reply held values that are not finite | the training diverged: lower "
            "train.lr");
  EXPECT_EQ(error_kind([&] { federation.play(7); }), ErrorKind::run);
  EXPECT_EQ(hash(federation.global), hash(start));
}

TEST(FedNclServer, RefusesAModelOfAnotherLayout) {
  Federation federation(state_of({1, 2}), {{state_of({1}), 1.0}});
  EXPECT_EQ(error_text([&] { federation.play(); }),
            "models of different layouts cannot be averaged");
}

TEST(FedNclServer, SelectsAsEveryMethodDoes) {
  Federation federation(state_of({0}), with_losses(std::vector<double>(20, 1.0)), {}, 0.25);
  std::vector<std::int64_t> everybody(20);
  std::iota(everybody.begin(), everybody.end(), std::int64_t{0});
  federation.play(3);
  EXPECT_EQ(federation.notes["clients"], Json(select_uniform(everybody, 5, 4, 3)));
}

TEST(FedNclMessages, FitTheirExchangesAndCountTheirBytes) {
  // Three parameters, one buffer and one counter: P = 5 values.
  const State model = state_of({1, 2, 3}, {4}, {5});
  Federation federation(model, std::vector<Reply>(3, {model, 1.0}));
  federation.play(6);
  ASSERT_EQ(federation.fleet.asked.size(), 3U);
  for (const Order& order : federation.fleet.asked) {
    EXPECT_EQ(order.task.kind(), "train");
    EXPECT_EQ(order.task.get<std::uint32_t>("round"), 6U);
    EXPECT_EQ(order.task.get<State>("model").flat.data_ptr(), model.flat.data_ptr());
    EXPECT_NO_THROW(check(order.task, federation.method.exchanges({})));
    EXPECT_EQ(order.task.bytes(), 4 + 4 * 5 + 1);
  }
  for (const Message& reply : federation.fleet.replies) {
    EXPECT_EQ(reply.kind(), "train_done");
    EXPECT_NO_THROW(check(reply, federation.method.exchanges({})));
    EXPECT_EQ(reply.bytes(), 4 * 5 + 4 + 8);
  }
}

TEST(FedNclParameters, HaveTheDocumentedDefaults) {
  FedNCL method;
  Params params;
  method.declare(params);
  const Json expected{{"penalty_rounds", 60},
                      {"beta", 1.0},
                      {"detection", "two_sided"},
                      {"score", "product_mean"},
                      {"loss", "train_running"},
                      {"literal_counter", false},
                      {"aggregation", "layerwise"},
                      {"penalty", true},
                      {"penalty_early", 10.0},
                      {"penalty_late", 50.0},
                      {"correction", true},
                      {"candidate_share", 0.5},
                      {"candidates", "absolute"},
                      {"min_participations", 3},
                      {"confidence", 0.9},
                      {"mu", 0.0},
                      {"dyn_alpha", 0.0}};
  EXPECT_EQ(params.values(), expected);
  for (const Param& param : params.all()) {
    EXPECT_FALSE(param.source().empty()) << param.name();
  }
}

TEST(FedNclParameters, RefuseWhatIsNotAllowed) {
  const auto refused = [](const Json& parameters) {
    return error_kind([&] { Federation(state_of({0}), {}, parameters); });
  };
  EXPECT_EQ(refused({{"detection", "three_sided"}}), ErrorKind::experiment);
  EXPECT_EQ(refused({{"score", "sum"}}), ErrorKind::experiment);
  EXPECT_EQ(refused({{"beta", -1.0}}), ErrorKind::experiment);
  EXPECT_EQ(refused({{"confidence", 1.5}}), ErrorKind::experiment);
  EXPECT_EQ(refused({{"candidate_share", -0.5}}), ErrorKind::experiment);
  EXPECT_EQ(refused({{"penalty_early", 0.5}}), ErrorKind::experiment);
  EXPECT_EQ(error_text([] {
              Federation(state_of({0}), {}, {{"penalty_early", 60.0}});
            }),
            "method.penalty_early = 60: expected at most method.penalty_late, which is 50");
  EXPECT_EQ(error_text([] {
              Federation(state_of({0}), {}, {{"mu", 0.5}, {"dyn_alpha", 0.25}});
            }),
            "method.dyn_alpha = 0.25: expected 0 beside method.mu, which is 0.5 | clients train by "
            "one rule: leave one of the two out");
}

TEST(FedNclInfo, IsASystemThatSeesNoTruth) {
  const MethodInfo info = fedncl_info();
  EXPECT_EQ(info.name, "fedncl");
  EXPECT_EQ(info.group, "system");
  EXPECT_EQ(info.truth, Truth::none);
  EXPECT_NE(info.make(), nullptr);
}

TEST(FedNclAbsences, NobodyUsableLeavesTheModelAsItIs) {
  const State start = state_of({1, 2});
  Federation federation(start, {{state_of({kNaN, 0}), 1.0}, {state_of({0, 0}), 1.0}});
  federation.fleet.away = [](std::int64_t client, const Message&) { return client == 1; };
  federation.play(0);
  EXPECT_EQ(hash(federation.global), hash(start));
  EXPECT_TRUE(federation.notes.contains("standstill"));
  EXPECT_FALSE(federation.method.findings().flagged.has_value());
}

}  // namespace winnow::fedncl::fedncl_test

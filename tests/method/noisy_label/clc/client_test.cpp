#include "winnow/method/noisy_label/clc/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "method/base_rounds.h"
#include "testing/support.h"
#include "winnow/method/noisy_label/clc/clc.h"

namespace winnow::clc::client_test {

using testing::DoubleNear;
using testing::ElementsAre;
using Values = std::vector<double>;

// A client of two classes whose samples each light one pixel of their own, so that a linear model
// gives sample i whatever probability it likes.
struct OneClient {
  explicit OneClient(const winnow::Labels& given) {
    std::vector<std::vector<std::uint8_t>> rows(given.size(),
                                                std::vector<std::uint8_t>(given.size(), 0));
    for (std::size_t i = 0; i < given.size(); ++i) {
      rows[i][i] = 1;
    }
    data.name = "pixels";
    data.classes = 2;
    data.train.images = rows_as_images(rows);
    data.train.labels = given;
    data.normalisation = bytes_as_they_are();
    held = deal(data, {static_cast<std::int64_t>(given.size())}).front();
    feed.emplace(data.train.images, data.normalisation, 0, at::kCPU);
    lane.emplace(make_net<LinearNet>(data), *feed, false);
  }
  // Gives sample i class 0 with probability p[i].
  State model(const Values& p) const {
    State state = State::zeros(lane->layout());
    const at::Tensor weight = state.view(*state.layout->find("fc.weight"));
    for (std::size_t i = 0; i < p.size(); ++i) {
      weight[0][static_cast<std::int64_t>(i)] = std::log(p[i] / (1 - p[i]));
    }
    return state;
  }
  Message ask(const Message& task) {
    ClientContext context(7, held, memory, *lane, train, 5);
    const Client side(options, FedAvg().client_side());
    EXPECT_NO_THROW(check(task, Clc().exchanges({})));
    Message reply = side.handle(task, context);
    EXPECT_NO_THROW(check(reply, Clc().exchanges({})));
    steps = context.steps();
    return reply;
  }
  Message ask_confidence(const State& state) {
    return ask(Message("confidence").set("model", state));
  }
  Message ask_to_train(const Values& confidence) {
    return ask(Message("train_kept").set("round", std::uint32_t{3}).set("confidence", confidence));
  }
  Message ask_to_correct(const Values& confidence) {
    return ask(Message("correct").set("confidence", confidence));
  }

  DataSet data;
  std::optional<Feed> feed;
  std::optional<Lane> lane;
  ClientData held;
  ClientMemory memory;
  TrainOptions train{.epochs = 2, .batch_size = 1, .lr = 0.1, .eval_batch = 2};
  Options options;
  std::int64_t steps = 0;
};

// spec: baselines 20: the worked samples.
const winnow::Labels kGiven{1, 1, 0};
const Values kClassZero{.54, .6, .44};
const Values kAgreed{.45, .875};

TEST(ClcClient, TellsMeanProbabilityAndCountOfItsLabels) {
  OneClient client(kGiven);
  const Message reply = client.ask_confidence(client.model(kClassZero));
  EXPECT_THAT(reply.get<Values>("mean"), ElementsAre(DoubleNear(.44, 1e-6), DoubleNear(.43, 1e-6)));
  EXPECT_THAT(reply.get<Values>("count"), ElementsAre(1, 2));
  EXPECT_EQ(client.steps, 0);
}

TEST(ClcClient, TellsNothingOfAClassItDoesNotHave) {
  OneClient client({1, 1, 1});
  const Message reply = client.ask_confidence(client.model(kClassZero));
  EXPECT_EQ(reply.get<Values>("mean")[0], 0.0);
  EXPECT_THAT(reply.get<Values>("count"), ElementsAre(0, 3));
}

TEST(ClcClient, TrainsOnWhatItKeeps) {
  OneClient client(kGiven);
  const State start = client.model(kClassZero);
  client.ask_confidence(start);
  EXPECT_FALSE(client.memory.model.defined()) << "that is for a model that a run measures";
  const Message reply = client.ask_to_train(kAgreed);
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 2U);
  EXPECT_EQ(client.memory.trace.selected, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(client.steps, 4);
  const std::vector<std::int64_t> samples{0, 2};
  const std::vector<std::int64_t> labels{1, 0};
  const TrainOutcome expected =
      client.lane->trainer().train(start, {samples, labels}, client.train, {}, {5, 3, 7});
  EXPECT_EQ(hash(reply.get<State>("model")), hash(expected.state));
  EXPECT_TRUE(client.memory.own.tensors.empty()) << "nothing is left of the exchange";
  EXPECT_FALSE(client.memory.trace.labels.has_value());
}

// spec: baselines 20
TEST(ClcClient, KeepsEverythingWithoutConfidenceOrWithTheWidestMargin) {
  OneClient client(kGiven);
  const State start = client.model(kClassZero);
  client.ask_confidence(start);
  const Message sceptical = client.ask_to_train({1, 1});
  EXPECT_EQ(sceptical.get<std::uint32_t>("samples"), 3U);
  client.options.tau = 1.0;
  client.ask_confidence(start);
  const Message wide = client.ask_to_train({0, 0});
  EXPECT_EQ(wide.get<std::uint32_t>("samples"), 3U);
  const Message plain =
      client.ask(Message("train").set("round", std::uint32_t{3}).set("model", start));
  EXPECT_EQ(hash(plain.get<State>("model")), hash(wide.get<State>("model")));
  EXPECT_EQ(hash(plain.get<State>("model")), hash(sceptical.get<State>("model")));
  EXPECT_TRUE(client.memory.empty());
}

TEST(ClcClient, ReturnsTheModelAsItWasWhenItKeepsNothing) {
  OneClient client({1, 1});
  const State start = client.model({.9, .8});
  client.ask_confidence(start);
  const Message reply = client.ask_to_train({.5, .5});
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 0U);
  EXPECT_EQ(hash(reply.get<State>("model")), hash(start));
  EXPECT_EQ(client.memory.trace.selected, (std::vector<bool>{false, false}));
  EXPECT_EQ(client.steps, 0);
}

TEST(ClcClient, StartsFromTheFullDataEveryRound) {
  OneClient client(kGiven);
  client.ask_confidence(client.model(kClassZero));
  client.ask_to_train(kAgreed);
  EXPECT_THAT(client.ask_confidence(client.model(kClassZero)).get<Values>("count"),
              ElementsAre(1, 2));
  EXPECT_EQ(client.ask_to_train({1, 1}).get<std::uint32_t>("samples"), 3U);
  EXPECT_EQ(client.memory.trace.selected, (std::vector<bool>{true, true, true}));
}

TEST(ClcClient, CorrectsAllLabels) {
  OneClient client(kGiven);
  client.memory.trace.selected.emplace(3, true);
  const State start = client.model(kClassZero);
  client.ask_confidence(start);
  EXPECT_EQ(client.ask_to_correct(kAgreed).get<std::uint32_t>("relabelled"), 3U);
  EXPECT_EQ(client.memory.trace.labels, (winnow::Labels{0, 0, 1}));
  EXPECT_FALSE(client.memory.trace.selected.has_value());
  EXPECT_TRUE(client.memory.own.tensors.empty());

  const Message reply =
      client.ask(Message("train").set("round", std::uint32_t{3}).set("model", start));
  const TrainOutcome expected = client.lane->trainer().train(
      start, {client.held.samples, *client.memory.trace.labels}, client.train, {}, {5, 3, 7});
  EXPECT_EQ(hash(reply.get<State>("model")), hash(expected.state));
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 3U);
}

TEST(ClcClient, CorrectsTheHeldOutLabelsOnlyWhereAsked) {
  OneClient client(kGiven);
  client.options.relabel = Relabel::held_out;
  client.ask_confidence(client.model(kClassZero));
  EXPECT_EQ(client.ask_to_correct(kAgreed).get<std::uint32_t>("relabelled"), 1U);
  EXPECT_EQ(client.memory.trace.labels, (winnow::Labels{1, 0, 0}));
}

TEST(ClcClient, RemembersNoLabelsWhereNoneChange) {
  OneClient client({0, 0});
  client.ask_confidence(client.model({.9, .8}));
  EXPECT_EQ(client.ask_to_correct({.5, .5}).get<std::uint32_t>("relabelled"), 0U);
  EXPECT_TRUE(client.memory.empty());
}

TEST(ClcClient, RemembersNothingOfAModelThatIsNotFinite) {
  OneClient client(kGiven);
  State broken = client.model(kClassZero);
  broken.flat.fill_(std::numeric_limits<float>::quiet_NaN());
  client.ask_confidence(client.model(kClassZero));
  const Message reply = client.ask_confidence(broken);
  EXPECT_TRUE(std::isnan(reply.get<Values>("mean")[0]));
  EXPECT_TRUE(client.memory.empty());
}

TEST(ClcClient, RefusesTasksThatDoNotFit) {
  OneClient client(kGiven);
  EXPECT_EQ(error_text([&] { client.ask_to_train(kAgreed); }),
            "client 7 was sent 'train_kept' without 'confidence' before it");
  EXPECT_EQ(error_text([&] { client.ask_to_correct(kAgreed); }),
            "client 7 was sent 'correct' without 'confidence' before it");
  client.ask_confidence(client.model(kClassZero));
  EXPECT_EQ(error_text([&] {
              client.ask_to_train({.1, .2, .3});
            }),
            "message 'train_kept' holds 3 confidences, expected 2");
  EXPECT_EQ(error_kind([&] { client.ask_to_train({}); }), ErrorKind::peer);
}

// spec: baselines T6: 3 doubles per class more than FedAvg.
TEST(ClcClient, ExchangesThreeNumbersPerClassBesideTheModel) {
  OneClient client(kGiven);
  const State start = client.model(kClassZero);
  const Message asked = Message("confidence").set("model", start);
  const Message told = client.ask(asked);
  const Message task =
      Message("train_kept").set("round", std::uint32_t{3}).set("confidence", kAgreed);
  const Message trained = client.ask(task);
  const Message plain_task = task_of(FedAvg(), 3, 7, start);
  const Message plain = client.ask(plain_task);
  EXPECT_EQ(asked.bytes() + told.bytes() + task.bytes() + trained.bytes(),
            plain_task.bytes() + plain.bytes() + 3 * 2 * 8);
}

}  // namespace winnow::clc::client_test

#include "winnow/method/system/winnow/client.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "testing/support.h"
#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/method/system/winnow/winnow.h"

namespace winnow::winnowing::client_test {

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
    EXPECT_NO_THROW(check(task, Winnow().exchanges({})));
    Message reply = side.handle(task, context);
    EXPECT_NO_THROW(check(reply, Winnow().exchanges({})));
    EXPECT_NO_THROW(side.check_memory(context));
    steps = context.steps();
    return reply;
  }
  Message look(const State& state) { return ask(Message("look").set("model", state)); }
  Message count(const Values& bars) { return ask(Message("count").set("thresholds", bars)); }
  Message train_doubted(const State& state, const Values& trust) {
    return ask(Message("train_doubted")
                   .set("round", std::uint32_t{3})
                   .set("model", state)
                   .set("trust", trust));
  }
  State plain(const State& start, const LocalSet& set) {
    return lane->trainer().train(start, set, train, {}, {5, 3, 7}).state;
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

const Values kTrust{1, .25, .5, 1};

// spec: winnow 2.1
TEST(WinnowClient, TellsHowSureModelsWereOfItsLabels) {
  OneClient client({1, 1, 0});
  const Message first = client.look(client.model({.54, .6, .44}));
  EXPECT_THAT(first.get<Values>("mean"), ElementsAre(DoubleNear(.44, 1e-6), DoubleNear(.43, 1e-6)));
  EXPECT_THAT(first.get<Values>("count"), ElementsAre(1, 2));
  EXPECT_EQ(client.steps, 0);
  const Message second = client.look(client.model({.54, .6, .84}));
  EXPECT_NEAR(second.get<Values>("mean")[0], .64, 1e-6) << "half of what was seen before";
  client.options.memory = 0.0;
  EXPECT_NEAR(client.look(client.model({.54, .6, .84})).get<Values>("mean")[0], .84, 1e-6);
}

// spec: winnow 2.1
TEST(WinnowClient, CountsItsLabelsByWhatModelsAreConfidentOf) {
  OneClient client({1, 1, 0, 0});
  client.look(client.model({.9, .3, .95, .6}));
  // .9 and .95 pass for class 0, .7 for class 1; .6 and .4 pass for neither.
  EXPECT_THAT(client.count({.8, .65}).get<Values>("counts"), ElementsAre(1, 0, 1, 1));
}

// spec: winnow 4
TEST(WinnowClient, TrainsLessOnWhatTheImageSpeaksAgainst) {
  OneClient client({1, 0, 1, 0});
  const State start = client.model({.1, .2, .9, .55});
  client.look(start);
  client.count({.6, .6});
  const Message reply = client.train_doubted(start, kTrust);
  // 1, .25, .5 and, as it is taken for nothing, 1.
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 3U) << "2.75 of 4";
  EXPECT_EQ(client.memory.trace.suspected, (std::vector<bool>{false, true, false, false}));
  EXPECT_FALSE(client.memory.trace.labels.has_value()) << "its labels stay as they were given";
  EXPECT_EQ(client.steps, 8) << "as many as ever";
  // Every sample is a pixel of its own: its weights move by its share over the mean, .6875.
  client.train.epochs = 1;
  const auto moved = [&](const State& state, std::int64_t pixel) {
    const auto place = *state.layout->find("fc.weight");
    return (state.view(place)[0][pixel] - start.view(place)[0][pixel]).item<double>();
  };
  const State weighed = client.train_doubted(start, kTrust).get<State>("model");
  const State plain = client.plain(start, {client.held.samples, client.held.given});
  EXPECT_NEAR(moved(weighed, 1) / moved(plain, 1), .25 / .6875, .05);
  EXPECT_NEAR(moved(weighed, 2) / moved(plain, 2), .5 / .6875, .05);
}

// spec: winnow 4
TEST(WinnowClient, TrainsAsItsBaseWhereNothingSpeaksAgainstItsLabels) {
  OneClient client({1, 0, 1});
  const State start = client.model({.4, .1, .98});
  client.look(start);
  client.count({.5, .5});
  const Message reply = client.train_doubted(start, {1, 1, 1, 1});
  EXPECT_NEAR(distance(reply.get<State>("model"),
                       client.plain(start, {client.held.samples, client.held.given})),
              0.0, 1e-6);
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 3U);
}

// spec: winnow 4
TEST(WinnowClient, JudgesByTheReceivedModelAsWellAsByEarlierOnes) {
  OneClient client({1, 1, 1});
  client.look(client.model({.9, .1, .1}));
  client.count({.5, .5});
  const auto suspects = [&](double now) {
    client.train_doubted(client.model({now, .1, .1}), {1, 1, .2, 1});
    return client.memory.trace.suspected->front();
  };
  EXPECT_TRUE(suspects(.2)) << "(.9 + .2) / 2 is for class 0";
  EXPECT_FALSE(suspects(.05));
  EXPECT_TRUE(suspects(.2)) << "what is trained with is not remembered";
}

TEST(WinnowClient, ReturnsTheModelAsItWasWhenNothingCounts) {
  OneClient client({1, 0, 1});
  const State start = client.model({.6, .4, .6});
  client.look(start);
  client.count({.5, .5});
  const Message reply = client.train_doubted(start, {0, 0, 0, 0});
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 0U);
  EXPECT_EQ(hash(reply.get<State>("model")), hash(start));
  EXPECT_EQ(client.steps, 0);
}

TEST(WinnowClient, TrainsAsItsBaseWhenItIsNotDoubted) {
  OneClient client({1, 0, 1});
  const State start = client.model({.4, .4, .98});
  client.look(start);
  client.count({.5, .5});
  client.train_doubted(start, kTrust);
  const Message reply =
      client.ask(Message("train").set("round", std::uint32_t{3}).set("model", start));
  EXPECT_EQ(hash(reply.get<State>("model")),
            hash(client.plain(start, {client.held.samples, client.held.given})));
  EXPECT_TRUE(client.memory.trace.empty()) << "nothing is suspected any more";
}

TEST(WinnowClient, KeepsWhatItSawBeforeWhenAModelIsNotFinite) {
  OneClient client({1, 1, 0});
  client.look(client.model({.54, .6, .44}));
  const at::Tensor before = client.memory.own.tensors.at("seen");
  State broken = client.model({.5, .5, .5});
  broken.flat.fill_(std::numeric_limits<float>::quiet_NaN());
  const Message reply = client.look(broken);
  EXPECT_TRUE(std::isnan(reply.get<Values>("mean")[0]));
  EXPECT_TRUE(client.memory.own.tensors.at("seen").equal(before));
}

TEST(WinnowClient, RefusesTasksOutOfTurnAndOfTheWrongSize) {
  OneClient client({1, 1, 0});
  const State start = client.model({.5, .5, .5});
  EXPECT_EQ(error_text([&] {
              client.count({.5, .5});
            }),
            "client 7 was sent 'count' without 'look' before it");
  EXPECT_EQ(error_text([&] { client.train_doubted(start, kTrust); }),
            "client 7 was sent 'train_doubted' without 'look' before it");
  client.look(start);
  EXPECT_EQ(error_text([&] { client.train_doubted(start, kTrust); }),
            "client 7 was sent 'train_doubted' without 'count' before it");
  client.count({.5, .5});
  EXPECT_EQ(error_text([&] { client.count({.5}); }),
            "message 'count' holds 1 values of 'thresholds', expected 2");
  EXPECT_EQ(error_text([&] {
              client.train_doubted(start, {1, 1});
            }),
            "message 'train_doubted' holds 2 values of 'trust', expected 4");
}

TEST(WinnowClient, RefusesAForgedMemory) {
  OneClient client({1, 1, 0});
  const auto load = [&](const at::Tensor& seen) {
    client.memory.own.put("seen", seen);
    ClientContext context(7, client.held, client.memory, *client.lane, client.train, 5);
    Client(client.options, FedAvg().client_side()).check_memory(context);
  };
  EXPECT_EQ(error_text([&] { load(at::full({3, 2}, 1.5F)); }), "seen: expected probabilities");
  EXPECT_EQ(error_kind([&] { load(at::full({2, 2}, .5F)); }), ErrorKind::run);
}

}  // namespace winnow::winnowing::client_test

#include "winnow/method/noisy_label/rofl/client.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "testing/support.h"
#include "winnow/method/noisy_label/rofl/objective.h"
#include "winnow/method/noisy_label/rofl/rofl.h"
#include "winnow/train/loss.h"

namespace winnow::rofl::client_test {

using Floats = std::vector<float>;

constexpr std::int64_t kSamples = 12;
constexpr TrainKey kKey{5, 3, 7};

// One client with a lane of its own.
template <typename T = TwoLayerNet>
struct OneClient {
  OneClient()
      : data(tiny_data()),
        feed(data.train.images, data.normalisation, 0, at::kCPU),
        lane(make_net<T>(data), feed, false),
        held(deal(data, {kSamples}).front()) {}

  State model(std::uint64_t seed = 1) const { return T(shape_of(data)).weights().initial(seed); }
  LocalSet set() const { return {held.samples, held.given}; }
  Message ask(const State& received, std::uint32_t round, const Floats& centroids) {
    ClientContext context(7, held, memory, lane, train, 5);
    const Message task =
        Message("train").set("round", round).set("model", received).set("centroids", centroids);
    EXPECT_NO_THROW(check(task, Rofl().exchanges({})));
    Message reply = Client(options).handle(task, context);
    EXPECT_NO_THROW(check(reply, Rofl().exchanges({})));
    steps = context.steps();
    return reply;
  }
  // Features and logits of all samples, outside of training.
  std::pair<at::Tensor, at::Tensor> look(const State& state) {
    std::pair<at::Tensor, at::Tensor> seen;
    lane.scorer().load(state);
    lane.scorer().each_batch(feed, held.samples, kSamples, {}, false,
                             [&](const at::Tensor& features, const at::Tensor& logits) {
                               seen = {features, logits};
                             });
    return seen;
  }
  at::Tensor labels() const { return at::tensor(held.given, at::kLong); }

  DataSet data;
  Feed feed;
  Lane lane;
  ClientData held;
  ClientMemory memory;
  TrainOptions train{.epochs = 2, .batch_size = 5, .lr = 0.05, .eval_batch = 5};
  Options options;
  std::int64_t steps = 0;
};

const Options kNeutral{.forget_rate = 0.0, .lambda_cen = 0.0, .lambda_e = 0.0};

// Three centroids of TwoLayerNet's six features.
Floats some_centroids() {
  Floats centroids(18, 0.1F);
  centroids[0] = centroids[7] = centroids[14] = 1.0F;
  return centroids;
}

TEST(RoflClient, WithEveryTermOffTrainsAsFedAvgDoes) {
  OneClient<NormNet> client;
  client.options = kNeutral;
  const State received = client.model();
  const Message reply = client.ask(received, 3, {});
  const State plain =
      client.lane.trainer().train(received, client.set(), client.train, {}, kKey).state;
  EXPECT_LT(distance(reply.get<State>("model"), plain), 1e-5 * distance(received, plain));
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 12U);
  EXPECT_EQ(client.steps, 6);
}

TEST(RoflClient, StartsFromItsOwnClassMeansWithoutCentroids) {
  OneClient<> client;
  client.train.lr = 0.0;
  client.train.epochs = 1;
  client.train.batch_size = kSamples;
  const State received = client.model();
  const at::Tensor means = class_means(client.look(received).first, client.labels(), 3);
  const auto sent = client.ask(received, 0, {}).get<Floats>("centroids");
  EXPECT_TRUE(at::allclose(at::tensor(sent).view({3, 6}), means, 1e-5, 1e-6))
      << "the only batch is all samples, so centroids move to where they are";
}

TEST(RoflClient, MovesTheReceivedCentroids) {
  OneClient<> client;
  client.train.lr = 0.0;
  client.train.epochs = 1;
  client.train.batch_size = kSamples;
  client.options.forget_rate = 0.0;
  const State received = client.model();
  const at::Tensor expected =
      moved(at::tensor(some_centroids()).view({3, 6}), client.look(received).first, client.labels(),
            at::ones({kSamples}, at::kBool));
  const auto sent = client.ask(received, 4, some_centroids()).get<Floats>("centroids");
  EXPECT_TRUE(at::allclose(at::tensor(sent).view({3, 6}), expected, 1e-5, 1e-6));
}

// spec: baselines 16
TEST(RoflClient, UsesGivenLabelsUntilThePseudoRound) {
  OneClient<> client;
  client.options = kNeutral;
  client.options.pseudo_round = 4;
  const State received = client.model();
  const State plain =
      client.lane.trainer().train(received, client.set(), client.train, {}, kKey).state;
  const auto before = client.ask(received, 3, some_centroids()).get<State>("model");
  EXPECT_LT(distance(before, plain), 1e-5 * distance(received, plain));
  client.options.pseudo_round = 3;
  const auto after = client.ask(received, 3, some_centroids()).get<State>("model");
  EXPECT_GT(distance(after, plain), 1e-3 * distance(received, plain));
}

// One full batch against the terms computed one by one.
TEST(RoflObjective, IsTheSumOfItsTerms) {
  for (const bool literal : {false, true}) {
    OneClient<> client;
    const Options options{.forget_rate = 0.3,
                          .forget_rounds = 1,
                          .pseudo_round = 2,
                          .lambda_cen = 0.7,
                          .lambda_e = 0.4,
                          .literal = literal};
    const State start = client.model();
    const auto [features, logits] = client.look(start);
    const at::Tensor centroids = at::tensor(some_centroids()).view({3, 6});
    const at::Tensor pseudo = at::full({kSamples}, 2, at::kLong);

    const at::Tensor ce = losses(logits, client.labels());
    const at::Tensor near_class = nearest(features, centroids);
    std::vector<std::int64_t> order(kSamples);
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::ranges::sort(order, {}, [&](std::int64_t i) { return ce[i].item<float>(); });
    double expected = 0.0;
    double apart = 0.0;
    constexpr std::int64_t kKept = 8;
    for (const std::int64_t i : std::span(order).first(kKept)) {
      const std::int64_t given = client.held.given[static_cast<std::size_t>(i)];
      const bool near_own = near_class[i].item<std::int64_t>() == given;
      const at::Tensor log_p = logits[i].log_softmax(0).to(at::kDouble);
      expected -= log_p[near_own ? given : 2].item<double>() / kKept;
      expected -= 0.4 * (log_p.exp() * log_p).sum().item<double>() / kKept;
      apart += near_own ? (features[i] - centroids[given]).square().sum().item<double>() : 0.0;
    }
    ASSERT_GT(apart, 0.0) << "otherwise this tests nothing";
    expected += 0.7 * (literal ? apart : apart / kKept);

    const TrainOptions train{.epochs = 1, .batch_size = kSamples, .lr = 0.0};
    const Plan plan = make_plan(client.set(), train, false, kKey);
    client.lane.trainer().begin({start}, kKey);
    const Objective objective(options, 3, plan, pseudo, centroids, client.lane.trainer());
    EXPECT_NEAR(client.lane.trainer().run(plan, objective, {.lr = 0.0})[0].item<double>(), expected,
                1e-5)
        << "literal " << literal;
  }
}

// spec: baselines 16: in the code the features are detached.
TEST(RoflObjective, TheLiteralCentroidTermDoesNotTrain) {
  const auto trained = [](double lambda_cen, bool literal) {
    OneClient<> client;
    client.options = {.forget_rate = 0.0,
                      .pseudo_round = 3,
                      .lambda_cen = lambda_cen,
                      .lambda_e = 0.0,
                      .literal = literal};
    return hash(client.ask(client.model(), 3, some_centroids()).get<State>("model"));
  };
  EXPECT_EQ(trained(1.0, true), trained(0.0, true));
  EXPECT_NE(trained(1.0, false), trained(0.0, false));
}

TEST(RoflClient, RemembersWhatItKeptInTheLastEpoch) {
  OneClient<> client;
  client.options.forget_rate = 0.4;
  client.options.forget_rounds = 1;
  client.train.batch_size = kSamples;
  client.train.lr = 0.0;
  const State received = client.model();
  client.ask(received, 3, some_centroids());
  ASSERT_TRUE(client.memory.trace.selected.has_value());
  const std::vector<bool>& selected = *client.memory.trace.selected;
  EXPECT_EQ(std::ranges::count(selected, true), 7);
  const at::Tensor ce = losses(client.look(received).second, client.labels());
  double largest_kept = 0.0;
  double smallest_left = 1e9;
  for (std::size_t i = 0; i < selected.size(); ++i) {
    const double loss = ce[static_cast<std::int64_t>(i)].item<double>();
    (selected[i] ? largest_kept : smallest_left) =
        selected[i] ? std::max(largest_kept, loss) : std::min(smallest_left, loss);
  }
  EXPECT_LE(largest_kept, smallest_left);
  EXPECT_TRUE(client.memory.own.tensors.empty());
}

TEST(RoflClient, GivesTheSameBitsInALaneThatServedOthers) {
  OneClient<NormNet> client;
  client.options.pseudo_round = 2;
  const Floats centroids(15, 0.3F);
  const auto ask = [&] {
    const Message reply = client.ask(client.model(), 3, centroids);
    return std::pair(hash(reply.get<State>("model")), reply.get<Floats>("centroids"));
  };
  const auto fresh = ask();
  client.train.epochs = 5;
  client.ask(client.model(2), 1, Floats(15, 0.9F));
  client.train.epochs = 2;
  EXPECT_EQ(ask(), fresh);
}

TEST(RoflClient, IgnoresMixup) {
  OneClient<> client;
  const auto plain = hash(client.ask(client.model(), 3, {}).get<State>("model"));
  client.train.mixup = 1.0;
  EXPECT_EQ(hash(client.ask(client.model(), 3, {}).get<State>("model")), plain);
}

TEST(RoflClient, RefusesCentroidsOfAnotherSize) {
  OneClient<> client;
  const auto ask = [&] { client.ask(client.model(), 3, Floats(17)); };
  EXPECT_EQ(error_text(ask), "message 'train' holds 17 centroid values, expected 3 classes of 6");
  EXPECT_EQ(error_kind(ask), ErrorKind::peer);
}

}  // namespace winnow::rofl::client_test

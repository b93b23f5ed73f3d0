#include "winnow/federation/client.h"

#include <gtest/gtest.h>

#include "testing/support.h"

namespace winnow::client_test {

// One client of a tiny data set on a lane of its own.
struct Client {
  Client()
      : data(tiny_data()),
        feed(data.train.images, data.normalisation, 0, at::kCPU),
        lane(make_net<TwoLayerNet>(data), feed, false),
        start(TwoLayerNet(shape_of(data)).weights().initial(1)),
        held(deal(data, {12}).front()) {}

  ClientContext context() { return {7, held, memory, lane, options, 5}; }

  DataSet data;
  Feed feed;
  Lane lane;
  State start;
  ClientData held;
  ClientMemory memory;
  TrainOptions options{.epochs = 2, .batch_size = 5};
};

TEST(ClientContext, TrainsUnderItsOwnKeyAndCountsSteps) {
  Client client;
  ClientContext context = client.context();
  const TrainOutcome outcome = context.train(client.start, 3, {});
  EXPECT_EQ(context.steps(), 6);
  Client other;
  const TrainOutcome direct =
      other.lane.trainer().train(other.start, {other.held.samples, other.held.given}, other.options,
                                 {}, {.seed = 5, .round = 3, .client = 7});
  EXPECT_EQ(hash(outcome.state), hash(direct.state));
  context.train(client.start, 4, {});
  EXPECT_EQ(context.steps(), 12);
}

TEST(ClientContext, PassesTheLocalRuleOn) {
  Client client;
  ClientContext context = client.context();
  EXPECT_NE(hash(context.train(client.start, 3, {.proximal = 1.0}).state),
            hash(context.train(client.start, 3, {}).state));
}

TEST(ClientContext, UsesCorrectedLabelsOnceThereAreSome) {
  Client client;
  ClientContext context = client.context();
  EXPECT_EQ(context.size(), 12);
  EXPECT_EQ(Labels(context.local_set().labels.begin(), context.local_set().labels.end()),
            client.held.given);
  const std::string before = hash(context.train(client.start, 3, {}).state);
  context.trace().labels = Labels(12, 1);
  EXPECT_EQ(Labels(context.local_set().labels.begin(), context.local_set().labels.end()),
            Labels(12, 1));
  EXPECT_NE(hash(context.train(client.start, 3, {}).state), before);
}

TEST(ClientContext, RecallsWhatIsThere) {
  Client client;
  ClientContext context = client.context();
  EXPECT_FALSE(context.recall("a").defined());
  EXPECT_EQ(context.recall("a", at::full({1}, 4)).item<int>(), 4);
  context.remember("a", at::full({1}, 6));
  EXPECT_EQ(context.recall("a", at::full({1}, 4)).item<int>(), 6);
  EXPECT_EQ(client.memory.own.tensors.count("a"), 1U);
  context.as_base([](ClientContext& base) {
    EXPECT_FALSE(base.recall("a").defined()) << "a base has names of its own";
    base.remember("a", at::full({1}, 8));
  });
  EXPECT_EQ(context.recall("a").item<int>(), 6);
  context.forget("a");
  EXPECT_FALSE(context.recall("a").defined());
  EXPECT_EQ(client.memory.base.tensors.at("a").item<int>(), 8);
}

TEST(ClientContext, ScoresAnyModelOnItsOwnSamples) {
  Client client;
  ClientContext context = client.context();
  const State other = TwoLayerNet(shape_of(client.data)).weights().initial(2);
  client.lane.scorer().load(other);
  const at::Tensor expected = client.lane.scorer().logits(client.feed, client.held.samples, 5);
  client.lane.scorer().load(client.start);
  EXPECT_TRUE(context.logits(other, 5).equal(expected));
  const Score score = context.score(other);
  EXPECT_EQ(score.count, 12);
  EXPECT_EQ(score.correct,
            expected.argmax(1).eq(context.labels_tensor()).sum().item<std::int64_t>());
  const std::vector<std::int64_t> samples(client.held.samples.begin(),
                                          client.held.samples.begin() + 3);
  const Labels labels(client.held.given.begin(), client.held.given.begin() + 3);
  EXPECT_EQ(context.score(other, {samples, labels}).count, 3);
  EXPECT_EQ(context.steps(), 0);

  client.lane.scorer().load(other);
  const ClientContext::Seen seen = context.features();
  EXPECT_EQ(seen.features.size(0), 12);
  EXPECT_EQ(seen.features.size(1), TwoLayerNet::kWidth);
  EXPECT_TRUE(at::allclose(seen.logits, expected, 1e-5, 1e-6));
}

TEST(ClientContext, SeesImagesAsTheyAreWhereTheLaneDoesNotAugment) {
  Client client;
  const ClientContext context = client.context();
  EXPECT_FALSE(context.view(ScoreView::clean, "score", 1).defined());
  EXPECT_FALSE(context.view(ScoreView::augmented, "score", 1).defined());
}

TEST(ClientContext, CountsTheStepsOfAnObjectiveOfOnesOwn) {
  Client client;
  ClientContext context = client.context();
  const TrainKey key = context.key(3);
  const Plan plan = make_plan(context.local_set(), client.options, {}, key);
  client.lane.trainer().begin({client.start}, key);
  context.trainer().take_steps(plan, CrossEntropy(client.options), stepping(client.options, 3));
  EXPECT_EQ(context.steps(), 6);
  EXPECT_EQ(context.loss().samples, 24);
  EXPECT_EQ(hash(context.trainer().finished_model()),
            hash(client.context().train(client.start, 3, {}).state));
}

TEST(ClientContext, CountsAnewWithWhateverTheTrainerDoes) {
  Client client;
  const LocalSet set{client.held.samples, client.held.given};
  ClientContext context = client.context();
  context.trainer().train(client.start, set, client.options, {}, context.key(3));
  EXPECT_EQ(context.steps(), 6);
  EXPECT_EQ(context.loss().samples, 24);
  context.trainer().train(client.start, set, client.options, {.head_only = true}, context.key(3));
  EXPECT_EQ(context.steps(), 6) << "those of the head alone are not counted";
  const Plan plan = make_plan(set, client.options, {}, context.key(3));
  context.trainer().begin({client.start}, context.key(3));
  context.trainer().run(plan, CrossEntropy(client.options), stepping(client.options, 3),
                        &client.feed);
  EXPECT_EQ(context.steps(), 6) << "nor those on other images";
  context.trainer().count_earlier(2);
  EXPECT_EQ(context.steps(), 8);
  EXPECT_EQ(client.lane.passes().forward, 72) << "passes are";
  EXPECT_EQ(client.context().steps(), 0);
  EXPECT_EQ(client.lane.passes().forward, 72);
}

TEST(ClientMemory, IsEmptyUntilSomethingIsRemembered) {
  EXPECT_TRUE(ClientMemory{}.empty());
  ClientMemory labels;
  labels.trace.labels = Labels{};
  EXPECT_FALSE(labels.empty());
  ClientMemory tensors;
  tensors.own.tensors["g"] = at::zeros({1});
  EXPECT_FALSE(tensors.empty());
  ClientMemory values;
  values.base.values["rounds"] = 0;
  EXPECT_FALSE(values.empty());
}

}  // namespace winnow::client_test

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
  const TrainOutcome direct =
      client.lane.train(client.start, {client.held.samples, client.held.given}, client.options, {},
                        {.seed = 5, .round = 3, .client = 7});
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
  context.memory().labels = Labels(12, 1);
  EXPECT_EQ(Labels(context.local_set().labels.begin(), context.local_set().labels.end()),
            Labels(12, 1));
  EXPECT_NE(hash(context.train(client.start, 3, {}).state), before);
}

TEST(ClientMemory, IsEmptyUntilSomethingIsRemembered) {
  EXPECT_TRUE(ClientMemory{}.empty());
  ClientMemory labels;
  labels.labels = Labels{};
  EXPECT_FALSE(labels.empty());
  ClientMemory tensors;
  tensors.archive.tensors["g"] = at::zeros({1});
  EXPECT_FALSE(tensors.empty());
  ClientMemory values;
  values.archive.values["rounds"] = 0;
  EXPECT_FALSE(values.empty());
}

}  // namespace winnow::client_test

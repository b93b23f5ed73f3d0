#include "winnow/method/noisy_label/rhfl/client.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "testing/support.h"
#include "winnow/base/random.h"
#include "winnow/method/noisy_label/rhfl/arithmetic.h"

namespace winnow::rhfl::rhfl_client_test {

constexpr std::uint64_t kSeed = 5;
constexpr std::int64_t kId = 7;

// One client with twenty samples and thirty public images.
struct Client {
  explicit Client(ClientOptions options = small())
      : side(std::move(options)), held(deal(data, {20}).front()) {}

  static ClientOptions small() {
    return {.lr = 0.01, .batch_size = 8, .public_batch = 12, .pretrain_epochs = 2};
  }
  Message ask(const Message& task) {
    ClientContext context(kId, held, memory, lane, train, kSeed, &open);
    const Message reply = side.handle(task, context);
    steps = context.steps();
    return reply;
  }
  double pretrain() { return ask(Message("pretrain")).get<double>("loss"); }
  Message learn(std::uint32_t batch, std::vector<float> target, std::uint32_t round = 0) {
    return ask(
        Message("learn").set("round", round).set("batch", batch).set("target", std::move(target)));
  }
  std::vector<float> probabilities(std::uint32_t batch) {
    return ask(Message("probabilities").set("batch", batch))
        .get<std::vector<float>>("probabilities");
  }
  State model() const { return {lane.layout(), memory.model}; }

  rhfl::Client side;
  DataSet data = tiny_data();
  Feed feed{data.train.images, data.normalisation, 0, at::kCPU};
  Feed open{data.test.images, data.normalisation, 0, at::kCPU};
  Lane lane{make_net<TwoLayerNet>(data), feed, false};
  ClientData held;
  ClientMemory memory;
  TrainOptions train{.epochs = 9, .batch_size = 3, .lr = 0.05, .momentum = 0.5};
  std::int64_t steps = 0;
};

State initial_model(const Client& client) {
  return client.lane.initial(stream_key(kSeed, "rhfl model", {static_cast<std::uint64_t>(kId)}));
}

// spec: baselines 17 c
TEST(RHFLClient, TrainsAsManyEpochsAsThePublicSetIsLarger) {
  EXPECT_EQ(local_epochs(5000, 1000), 5);
  EXPECT_EQ(local_epochs(5000, 1001), 4);
  EXPECT_EQ(local_epochs(5000, 12500), 1);
  EXPECT_EQ(local_epochs(5000, 0), 5000);
}

TEST(RHFLClient, PretrainingMakesAModelOfItsOwnAndTellsItsLoss) {
  Client client;
  const double loss = client.pretrain();
  EXPECT_EQ(client.steps, 6) << "two epochs of 8, 8 and 4 samples";
  EXPECT_NE(hash(client.model()), hash(initial_model(client)));
  client.lane.scorer().load(client.model());
  const at::Tensor logits = client.lane.scorer().logits(client.feed, client.held.samples, 20);
  const at::Tensor labels = at::tensor(client.held.given, at::kLong);
  EXPECT_NEAR(loss, symmetric_cross_entropies(logits, labels, 0.1, 1.0).mean().item<double>(),
              1e-5);
}

TEST(RHFLClient, EveryClientStartsFromValuesOfItsOwn) {
  Client client;
  ClientMemory memory;
  ClientContext other(8, client.held, memory, client.lane, client.train, kSeed, &client.open);
  const rhfl::Client still(ClientOptions{.lr = 0.0});
  still.handle(Message("pretrain"), other);
  const State model{client.lane.layout(), memory.model};
  EXPECT_EQ(hash(model), hash(client.lane.initial(stream_key(kSeed, "rhfl model", {8}))));
  EXPECT_NE(hash(model), hash(initial_model(client)));
}

TEST(RHFLClient, SaysWhatItPredictsForAPublicBatch) {
  Client client;
  client.pretrain();
  const std::string before = hash(client.model());
  std::vector<std::int64_t> samples(30);
  std::iota(samples.begin(), samples.end(), std::int64_t{0});
  std::vector<float> all;
  for (const std::uint32_t batch : {0U, 1U, 2U}) {
    const std::vector<float> part = client.probabilities(batch);
    EXPECT_EQ(part.size(), batch < 2 ? 36U : 18U);
    all.insert(all.end(), part.begin(), part.end());
  }
  client.lane.scorer().load(client.model());
  EXPECT_TRUE(at::allclose(at::tensor(all).view({30, 3}),
                           client.lane.scorer().logits(client.open, samples, 12).softmax(1)));
  EXPECT_EQ(hash(client.model()), before);
  EXPECT_EQ(client.steps, 0);
}

// spec: baselines 17 b: the first step of a fresh Adam
TEST(RHFLClient, LearningIsOneStepOfAFreshAdamTowardsTheTarget) {
  Client client;
  client.pretrain();
  const State before = client.model();
  std::vector<float> target(36, 0.0F);
  for (std::size_t i = 0; i < target.size(); i += 3) {
    target[i] = 0.7F;
  }
  const std::vector<float> p = client.probabilities(1);
  EXPECT_EQ(client.learn(1, target).kind(), "learn_done");
  const at::Tensor moved = (client.model().parameters() - before.parameters()).abs();
  EXPECT_LE(moved.max().item<float>(), 0.01F + 1e-6F);
  EXPECT_GT(moved.mean().item<float>(), 0.008F) << "nearly every value moves by lr";
  const std::vector<float> after = client.probabilities(1);
  double gain = 0.0;
  for (std::size_t i = 0; i < p.size(); i += 3) {
    gain += static_cast<double>(after[i] - p[i]);
  }
  EXPECT_GT(gain, 0.0);
}

TEST(RHFLClient, APerfectOrEmptyTargetMovesNothing) {
  Client client;
  client.pretrain();
  const State before = client.model();
  client.learn(0, std::vector<float>(36, 0.0F));
  EXPECT_TRUE(client.model().flat.equal(before.flat));
}

TEST(RHFLClient, TheMemorysTensorsAreReplacedNotChanged) {
  Client client;
  client.pretrain();
  const at::Tensor held = client.memory.model;
  const at::Tensor copy = held.clone();
  client.learn(0, std::vector<float>(36, 0.3F));
  client.ask(Message("train").set("round", std::uint32_t{0}));
  EXPECT_TRUE(held.equal(copy));
}

TEST(RHFLClient, StepsOnPublicImagesCountWithTheTrainingThatFollows) {
  Client client;
  client.pretrain();
  client.learn(0, std::vector<float>(36, 0.3F));
  EXPECT_EQ(client.steps, 0);
  client.learn(1, std::vector<float>(36, 0.3F));
  client.ask(Message("train").set("round", std::uint32_t{0}));
  EXPECT_EQ(client.steps, 2 + 3) << "one epoch, since 30 / 20 is 1";
  client.ask(Message("train").set("round", std::uint32_t{1}));
  EXPECT_EQ(client.steps, 3);
}

TEST(RHFLClient, TrainsOnItsOwnDataWithAdamOrSgd) {
  const auto trained = [](Optimizer optimiser, const TrainOptions& train) {
    ClientOptions options = Client::small();
    options.optimiser = optimiser;
    options.local_epochs = 4;
    Client client(options);
    client.train = train;
    client.pretrain();
    const double before = client.pretrain();
    const Message reply = client.ask(Message("train").set("round", std::uint32_t{1}));
    EXPECT_EQ(client.steps, 12);
    EXPECT_LT(reply.get<double>("loss"), before) << static_cast<int>(optimiser);
    return hash(client.model());
  };
  const TrainOptions slow{.lr = 0.05};
  const TrainOptions fast{.lr = 0.1};
  EXPECT_EQ(trained(Optimizer::adam, slow), trained(Optimizer::adam, fast)) << "[train] has no say";
  EXPECT_NE(trained(Optimizer::sgd, slow), trained(Optimizer::sgd, fast));
  EXPECT_NE(trained(Optimizer::sgd, slow), trained(Optimizer::adam, slow));
}

TEST(RHFLClient, RoundsAndPretrainingShuffleDifferently) {
  const auto after = [](std::uint32_t round) {
    Client client;
    client.pretrain();
    client.ask(Message("train").set("round", round));
    return hash(client.model());
  };
  EXPECT_EQ(after(0), after(0));
  EXPECT_NE(after(0), after(1));
}

TEST(RHFLClient, RefusesTasksThatDoNotFit) {
  Client client;
  EXPECT_EQ(error_text([&] { client.probabilities(0); }),
            "client 7 was asked for its model before it has one");
  client.pretrain();
  EXPECT_EQ(error_text([&] { client.probabilities(3); }),
            "public batch 3 was asked for, there are only 30 images");
  EXPECT_EQ(error_text([&] { client.learn(0, std::vector<float>(35)); }),
            "message 'learn' holds 35 values for 12 images");
  EXPECT_EQ(error_kind([&] { client.learn(0, {}); }), ErrorKind::peer);
}

TEST(RHFLClient, RunningStatisticsAreTheClientsToo) {
  const DataSet data = tiny_data();
  const Feed feed(data.train.images, data.normalisation, 0, at::kCPU);
  const Feed open(data.test.images, data.normalisation, 0, at::kCPU);
  Lane lane(make_net<NormNet>(data), feed, false);
  const ClientData held = deal(data, {20}).front();
  ClientMemory memory;
  const rhfl::Client side(Client::small());
  const auto ask = [&](const Message& task) {
    ClientContext context(kId, held, memory, lane, {}, kSeed, &open);
    side.handle(task, context);
    return State{lane.layout(), memory.model};
  };
  const State before = ask(Message("pretrain"));
  EXPECT_EQ(before.counters().item<float>(), 6.0F);
  const State after = ask(Message("learn")
                              .set("round", std::uint32_t{0})
                              .set("batch", std::uint32_t{0})
                              .set("target", std::vector<float>(36, 0.3F)));
  EXPECT_EQ(after.counters().item<float>(), 7.0F);
  EXPECT_FALSE(after.buffers().equal(before.buffers()));
}

}  // namespace winnow::rhfl::rhfl_client_test

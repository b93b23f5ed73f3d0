#include "winnow/method/noisy_label/fedlsr/fedlsr.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "testing/support.h"
#include "winnow/method/noisy_label/fedlsr/losses.h"
#include "winnow/train/loss.h"

namespace winnow::fedlsr_test {

constexpr TrainKey kKey{5, 3, 7};

// One client with a lane of its own.
template <typename T = NormNet>
struct OneClient {
  explicit OneClient(std::int64_t channels = 1, bool augment = false)
      : data(make_data(channels)),
        feed(data.train.images, data.normalisation, 0, at::kCPU),
        lane(make_net<T>(data), feed, augment),
        held(deal(data, {12}).front()) {}

  static DataSet make_data(std::int64_t channels) {
    DataSet data = make_synthetic({.samples = 60,
                                   .test_samples = 30,
                                   .classes = 3,
                                   .channels = channels,
                                   .size = 8,
                                   .difficulty = 0.3,
                                   .seed = 3});
    const auto count = static_cast<std::size_t>(channels);
    data.normalisation = {std::vector<double>(count, 0.5), std::vector<double>(count, 0.25)};
    return data;
  }
  State model(std::uint64_t seed = 1) const { return T(shape_of(data)).weights().initial(seed); }
  LocalSet set() const { return {held.samples, held.given}; }
  Message ask(const State& received, double gamma = 0.4, std::uint32_t round = 3) {
    ClientContext context(7, held, memory, lane, train, 5);
    const Message task =
        Message("train").set("round", round).set("model", received).set("gamma", gamma);
    EXPECT_NO_THROW(check(task, FedLsr().exchanges({})));
    Message reply = fedlsr::Client(options).handle(task, context);
    EXPECT_NO_THROW(check(reply, FedLsr().exchanges({})));
    steps = context.steps();
    return reply;
  }
  std::string trained(double gamma = 0.4, std::uint32_t round = 3) {
    return hash(ask(model(), gamma, round).template get<State>("model"));
  }

  DataSet data;
  Feed feed;
  Lane lane;
  ClientData held;
  ClientMemory memory;
  TrainOptions train{.epochs = 2, .batch_size = 5, .lr = 0.05};
  fedlsr::Options options;
  std::int64_t steps = 0;
};

TEST(FedLsrClient, TrainsAndRemembersNothing) {
  for (const std::int64_t channels : {1, 3}) {
    OneClient<> client(channels, channels == 3);
    const State received = client.model();
    const Message reply = client.ask(received);
    EXPECT_GT(distance(reply.get<State>("model"), received), 1e-4);
    EXPECT_TRUE(all_finite(reply.get<State>("model")));
    EXPECT_EQ(reply.get<std::uint32_t>("samples"), 12U);
    EXPECT_EQ(client.steps, 6);
    EXPECT_TRUE(client.memory.empty());
  }
}

TEST(FedLsrClient, GivesTheSameBitsInALaneThatServedOthers) {
  OneClient<> client(3, true);
  const std::string fresh = client.trained();
  client.train.epochs = 5;
  client.ask(client.model(2), 0.9, 1);
  client.train.epochs = 2;
  EXPECT_EQ(client.trained(), fresh);
  EXPECT_NE(client.trained(0.4, 4), fresh) << "another round draws other views";
}

TEST(FedLsrClient, EachPartOfTheLossCounts) {
  OneClient<> client;
  const std::string base = client.trained();
  EXPECT_NE(client.trained(0.0), base);
  const auto differs = [&](auto change) {
    OneClient<> other;
    change(other.options);
    return other.trained() != base;
  };
  EXPECT_TRUE(differs([](fedlsr::Options& options) { options.lambda_e = 0.0; }));
  EXPECT_TRUE(differs([](fedlsr::Options& options) { options.literal_ce = true; }));
  EXPECT_TRUE(differs([](fedlsr::Options& options) { options.literal_js = false; }));
  EXPECT_TRUE(differs([](fedlsr::Options& options) { options.literal_entropy = true; }));
  EXPECT_FALSE(differs([](fedlsr::Options& options) {
    options.views = fedlsr::ViewChoice::rotation;
  })) << "what auto chooses for grey images";
}

// One full batch against the parts computed from the views of both halves.
TEST(FedLsrObjective, IsTheSumOfItsParts) {
  OneClient<TwoLayerNet> client;
  const State start = client.model();
  const TrainOptions train{.epochs = 1, .batch_size = 12, .lr = 0.0};
  const Plan plan = make_plan(client.set(), train, false, kKey, 2);
  client.lane.trainer().begin({start}, kKey);
  const fedlsr::Objective objective(client.options, 0.7, plan, kKey, client.feed,
                                    client.lane.trainer());
  const double loss = client.lane.trainer().run(plan, objective, {.lr = 0.0})[0].item<double>();

  const at::Tensor knobs = client.lane.trainer().buffer("fedlsr.knobs", 12, {2, 1}, at::kFloat);
  const at::Tensor lambda =
      client.lane.trainer().buffer("fedlsr.lambdas", 1, {}, at::kFloat).narrow(0, 0, 1);
  EXPECT_GT(lambda.item<float>(), 0.0F);
  EXPECT_LT(lambda.item<float>(), 1.0F);
  at::Tensor scratch;
  const at::Tensor images = client.feed.batch(plan.index, {}, scratch);
  const auto logits = [&](std::int64_t view) {
    return client.lane.scorer().output(
        fedlsr::make_views(fedlsr::Views::rotation, images, knobs.narrow(0, 0, 12).select(1, view),
                           client.feed.scale(), client.feed.shift()));
  };
  client.lane.scorer().load(start);
  const at::Tensor z = logits(0);
  const at::Tensor z2 = logits(1);
  const at::Tensor q = fedlsr::confident(z);
  const at::Tensor q2 = fedlsr::confident(z2);
  const double expected =
      (fedlsr::class_loss(fedlsr::sharpened(fedlsr::mixed(z, z2, lambda)), plan.label, false) +
       0.7 * fedlsr::divergence(q, q2, true) + 0.6 * fedlsr::entropy(q, q2, false))
          .item<double>();
  EXPECT_NEAR(loss, expected, 1e-5);
  EXPECT_GT(fedlsr::divergence(q, q2, true).item<double>(), 0.0) << "the views differ";
}

TEST(FedLsrClient, ChoosesViewsByTheChannels) {
  const fedlsr::Options options;
  EXPECT_EQ(fedlsr::views_for(options, 3), fedlsr::Views::colour);
  EXPECT_EQ(fedlsr::views_for(options, 1), fedlsr::Views::rotation);
  EXPECT_EQ(fedlsr::views_for({.views = fedlsr::ViewChoice::rotation}, 3), fedlsr::Views::rotation);
  EXPECT_EQ(error_text([] { fedlsr::views_for({.views = fedlsr::ViewChoice::colour}, 1); }),
            "method.views = \"colour\": expected images of 3 channels, these have 1 | use views = "
            "\"rotation\"");
}

TEST(FedLsrClient, IgnoresMixupAndSmoothing) {
  OneClient<> client;
  const std::string plain = client.trained();
  client.train.mixup = 1.0;
  client.train.label_smoothing = 0.2;
  EXPECT_EQ(client.trained(), plain);
}

// The server side over clients whose replies are given.
struct Federation {
  explicit Federation(std::vector<State> given, std::int64_t rounds = 100)
      : setting{.seed = 4,
                .rounds = rounds,
                .clients = static_cast<std::int64_t>(given.size()),
                .fraction = 1.0,
                .classes = 3},
        replies(std::move(given)),
        fleet(std::vector<std::int64_t>(replies.size(), 2),
              [this](std::int64_t client, const Message&) {
                return Message("train_done")
                    .set("model", replies[static_cast<std::size_t>(client)])
                    .set("samples", static_cast<std::uint32_t>(client + 1));
              }),
        global(replies.front()) {}

  void play(std::int64_t round) {
    notes = Json::object();
    Server server{setting, fleet, global, notes};
    method.play(round, server);
  }

  Setting setting;
  std::vector<State> replies;
  FakeFleet fleet;
  State global;
  Json notes;
  FedLsr method;
};

TEST(FedLsr, AveragesAsFedAvgDoes) {
  Federation federation({state_of({0, 3}), state_of({3, 0})});
  federation.play(0);
  EXPECT_EQ(values_of(federation.global), (std::vector<float>{2, 1}));
}

// spec: baselines 18
TEST(FedLsr, TasksCarryTheGammaOfTheRound) {
  Federation federation({state_of({1, 2, 3}, {4}, {5})});
  for (const auto& [round, gamma] : {std::pair{0, 0.0}, {5, .1}, {20, .4}, {99, .4}}) {
    federation.fleet.asked.clear();
    federation.play(round);
    const Message& task = federation.fleet.asked.front().task;
    EXPECT_NO_THROW(check(task, federation.method.exchanges({})));
    EXPECT_NEAR(task.get<double>("gamma"), gamma, 1e-12) << round;
    EXPECT_NEAR(federation.notes["gamma"].get<double>(), gamma, 1e-12) << round;
  }
}

TEST(FedLsr, CostsOneNumberMoreThanFedAvg) {
  Federation federation({state_of({1, 2, 3}, {4}, {5})});
  federation.play(0);
  EXPECT_EQ(federation.fleet.traffic().bytes_down, 4 + 4 * 5 + 8);
  EXPECT_EQ(federation.fleet.traffic().bytes_up, 4 * 5 + 4);
  EXPECT_NO_THROW(check(federation.fleet.replies.front(), federation.method.exchanges({})));
}

TEST(FedLsr, RejectsAReplyThatIsNotFinite) {
  Federation federation({state_of({std::numeric_limits<float>::quiet_NaN()}), state_of({3})});
  federation.play(0);
  EXPECT_EQ(values_of(federation.global), std::vector<float>{3});
  EXPECT_EQ(federation.notes["rejected"], Json{0});
}

TEST(FedLsr, KeepsNothingBetweenRounds) {
  Federation federation({state_of({1})});
  federation.play(50);
  Archive archive;
  federation.method.save(archive);
  EXPECT_TRUE(archive.tensors.empty());
  EXPECT_TRUE(archive.values.empty());
}

TEST(FedLsr, HasTheSpecsDefaults) {
  FedLsr method;
  Params params;
  method.declare(params);
  EXPECT_EQ(params.values(), (Json{{"gamma", 0.4},
                                   {"warmup_share", 0.2},
                                   {"lambda_e", 0.6},
                                   {"views", "auto"},
                                   {"literal_ce", false},
                                   {"literal_js", true},
                                   {"literal_entropy", false}}));
  EXPECT_EQ(fedlsr_info().group, "noisy-label");
}

}  // namespace winnow::fedlsr_test

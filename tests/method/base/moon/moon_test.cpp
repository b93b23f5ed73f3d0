#include "winnow/method/base/moon/moon.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <type_traits>

#include "testing/support.h"
#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/method/base/moon/objective.h"
#include "winnow/train/loss.h"

namespace winnow::moon_test {

static_assert(std::is_base_of_v<BaseMethod, Moon>, "others can wrap it");

constexpr const char* kPrevious = "moon.previous";

// One client with a lane of its own.
template <typename T>
struct OneClient {
  OneClient()
      : data(tiny_data()),
        feed(data.train.images, data.normalisation, 0, at::kCPU),
        lane(make_net<T>(data), feed, true),
        held(deal(data, {12}).front()) {}

  State model(std::uint64_t seed) const { return T(shape_of(data)).weights().initial(seed); }
  Message ask(const Method& method, const State& received, std::uint32_t round = 3) {
    ClientContext context(7, held, memory, lane, options, 5);
    Message reply = method.client_side()->handle(
        Message("train").set("round", round).set("model", received), context);
    EXPECT_NO_THROW(check(reply, method.exchanges({})));
    steps = context.steps();
    return reply;
  }
  std::string trained(const Method& method, const State& received, std::uint32_t round = 3) {
    return hash(ask(method, received, round).template get<State>("model"));
  }

  DataSet data;
  Feed feed;
  Lane lane;
  ClientData held;
  ClientMemory memory;
  TrainOptions options{.epochs = 2, .batch_size = 5, .lr = 0.05};
  std::int64_t steps = 0;
};

// spec: baselines 8 and T3
TEST(Moon, WithoutAWeightIsFedAvgAndRemembersNothing) {
  OneClient<NormNet> client;
  const State received = client.model(1);
  const std::string expected = client.trained(FedAvg(), received);
  EXPECT_EQ(client.trained(Moon(0.0), received), expected);
  EXPECT_TRUE(client.memory.empty());
  EXPECT_EQ(client.trained(Moon(0.0), received), expected) << "also the second time";
}

// spec: baselines 8: the term has no gradient the first time.
TEST(Moon, TheFirstParticipationIsFedAvgBitForBit) {
  OneClient<NormNet> client;
  client.options.label_smoothing = 0.1;
  client.options.temperature = 2.0;
  client.options.mixup = 1.0;
  client.options.weight_decay = 0.01;
  const State received = client.model(1);
  const std::string expected = client.trained(FedAvg(), received);
  const Message reply = client.ask(Moon(5.0), received);
  EXPECT_EQ(hash(reply.get<State>("model")), expected);
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 12U);
  EXPECT_EQ(client.steps, 6);
}

TEST(Moon, RemembersItsModelAndThenIsDrivenAwayFromIt) {
  OneClient<TwoLayerNet> client;
  const State received = client.model(1);
  const State first = client.ask(Moon(), client.model(2), 0).get<State>("model");
  const at::Tensor kept = client.memory.own.tensors.at(kPrevious);
  EXPECT_TRUE(kept.equal(first.flat));
  EXPECT_EQ(client.memory.own.tensors.size(), 1U);
  const at::Tensor copy = kept.clone();
  const State second = client.ask(Moon(), received).get<State>("model");
  EXPECT_NE(hash(second), client.trained(FedAvg(), received));
  EXPECT_TRUE(kept.equal(copy)) << "replaced, never changed";
  EXPECT_TRUE(client.memory.own.tensors.at(kPrevious).equal(second.flat));
}

TEST(Moon, TheSameMemoryGivesTheSameBits) {
  OneClient<NormNet> client;
  client.ask(Moon(), client.model(2), 0);
  const ClientMemory memory = client.memory;
  const std::string once = client.trained(Moon(), client.model(1));
  client.memory = memory;
  EXPECT_EQ(client.trained(Moon(), client.model(1)), once);
}

// The loss of the first step against the parts computed one by one.
TEST(Moon, AddsTheMeanContrastToTheCrossEntropy) {
  OneClient<NormNet> client;
  const std::vector<State> starts{client.model(1), client.model(2), client.model(3)};
  const TrainKey key{5, 3, 7};
  const LocalSet set{client.held.samples, client.held.given};
  TrainOptions options{.epochs = 1, .batch_size = 12, .lr = 0.1};
  const Plan plan = make_plan(set, options, false, key);
  client.lane.trainer().begin(starts, key);
  const double loss = client.lane.trainer()
                          .run(plan, moon::Objective(options, 2.0, 0.5), {.lr = 0.1})[0]
                          .item<double>();
  EXPECT_EQ(hash(client.lane.trainer().model(1)), hash(starts[1])) << "frozen, statistics too";
  EXPECT_EQ(hash(client.lane.trainer().model(2)), hash(starts[2]));
  EXPECT_NE(hash(client.lane.trainer().model(0)), hash(starts[0]));

  client.lane.trainer().begin(starts, key);
  std::vector<at::Tensor> features(3);
  at::Tensor logits;
  for (const std::size_t model : {2, 1, 0}) {
    client.lane.scorer().each_batch(
        client.feed, set.samples, 12, {}, /*training=*/model == 0,
        [&](const at::Tensor& seen, const at::Tensor& output) {
          features[model] = seen;
          logits = output;
        },
        model);
  }
  const double expected =
      smoothed_cross_entropy(logits, at::tensor(client.held.given), 0, 1).item<double>() +
      2.0 * moon::contrast(features[0], features[1], features[2], 0.5).mean().item<double>();
  EXPECT_NEAR(loss, expected, 1e-5);
}

TEST(Moon, ForgetsATrainingThatDiverged) {
  OneClient<TwoLayerNet> client;
  State broken = client.model(1);
  broken.flat = broken.flat.clone();
  broken.flat[0] = std::numeric_limits<float>::quiet_NaN();
  const Message reply = client.ask(Moon(), broken);
  EXPECT_FALSE(all_finite(reply.get<State>("model")));
  EXPECT_TRUE(client.memory.empty());
}

TEST(Moon, ReturnsTheModelAsItIsWithoutSamples) {
  OneClient<TwoLayerNet> client;
  client.held = {};
  const State received = client.model(1);
  EXPECT_EQ(client.trained(Moon(), received), hash(received));
  EXPECT_EQ(client.steps, 0);
}

TEST(Moon, CostsWhatFedAvgCosts) {
  const State model = state_of({1, 2, 3}, {4}, {5});
  FakeFleet fleet({2, 8}, [&](std::int64_t client, const Message&) {
    return Message("train_done")
        .set("model", client == 0 ? state_of({3, 2, 1}, {4}, {5}) : model)
        .set("samples", static_cast<std::uint32_t>(client == 0 ? 2 : 8));
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 2, .fraction = 1.0, .classes = 3};
  State global = model;
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  Moon().play(0, server);
  EXPECT_EQ(fleet.traffic().bytes_down, 2 * (4 + 4 * 5));
  EXPECT_EQ(fleet.traffic().bytes_up, 2 * (4 * 5 + 4));
  EXPECT_FLOAT_EQ(values_of(global)[0], 1.4F) << "by samples";
  for (const Order& order : fleet.asked) {
    EXPECT_NO_THROW(check(order.task, Moon().exchanges({})));
  }
}

TEST(Moon, RejectsAReplyThatIsNotFinite) {
  FakeFleet fleet({2, 8}, [&](std::int64_t client, const Message&) {
    return Message("train_done")
        .set("model", state_of({client == 1 ? std::numeric_limits<float>::infinity() : 6.0F}))
        .set("samples", std::uint32_t{2});
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 2, .fraction = 1.0, .classes = 3};
  State global = state_of({1});
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  Moon().play(0, server);
  EXPECT_EQ(values_of(global), std::vector<float>{6});
  EXPECT_EQ(notes["rejected"], Json{1});
}

TEST(Moon, ChecksItsParameters) {
  Moon moon;
  Params params;
  moon.declare(params);
  EXPECT_EQ(params.values(), (Json{{"mu", 1.0}, {"tau", 0.5}}));
  EXPECT_EQ(error_text([&] {
              params.read(Json{{"tau", 0}}, "method");
            }),
            "method.tau = 0: expected a number > 0 | temperature of the similarities in the "
            "contrastive loss");
  EXPECT_EQ(error_text([&] {
              params.read(Json{{"mu", -1}}, "method");
            }),
            "method.mu = -1: expected a number >= 0 | weight of the contrastive loss; 0: FedAvg");
}

}  // namespace winnow::moon_test

#include "winnow/method/system/fedncl/client.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing/support.h"
#include "winnow/base/error.h"
#include "winnow/method/base/feddyn/feddyn.h"
#include "winnow/method/system/fedncl/fedncl.h"

namespace winnow::fedncl::client_test {

// One client with a real lane on a linear model over three classes.
struct Client {
  explicit Client(std::int64_t samples, const TrainOptions& train = {.epochs = 2, .batch_size = 5})
      : options(train), held(deal(data, {samples}).front()) {
    std::fill(held.given.begin(), held.given.end(), 2);
  }

  // A model that gives every image the class probabilities p.
  State sure(const std::vector<double>& p) const {
    State state = State::zeros(lane.layout());
    const at::Tensor bias = state.view(*state.layout->find("fc.bias"));
    for (std::size_t label = 0; label < p.size(); ++label) {
      bias.data_ptr<float>()[label] = static_cast<float>(std::log(p[label]));
    }
    return state;
  }
  Message handle(const State& model, bool correct, LossRule loss = LossRule::train_running,
                 std::uint32_t round = 3) {
    ClientContext context(7, held, memory, lane, options, 5);
    const CorrectingClient side(loss, 0.9);
    const Message reply = side.handle(Message("train")
                                          .set("round", round)
                                          .set("model", model)
                                          .set("correct", std::uint8_t{correct}),
                                      context);
    EXPECT_NO_THROW(check(reply, FedNCL().exchanges({})));
    EXPECT_FALSE(memory.trace.labels.has_value()) << "no correction lasts";
    EXPECT_TRUE(memory.own.values.empty() && memory.own.tensors.empty());
    return reply;
  }
  TrainOutcome train_on(const State& model, std::int64_t label, std::int64_t round = 3) {
    const Labels labels(held.samples.size(), label);
    return lane.trainer().train(model, {held.samples, labels}, options, {}, {5, round, 7});
  }

  DataSet data = tiny_data();
  Feed feed{data.train.images, data.normalisation, 0, at::kCPU};
  Lane lane{make_net<LinearNet>(data), feed, true};
  TrainOptions options;
  ClientData held;
  ClientMemory memory;
};

TEST(FedNclClient, TrainsOnTheGivenLabels) {
  Client client(12);
  const State start = client.sure({0.95, 0.03, 0.02});
  const Message reply = client.handle(start, false);
  const TrainOutcome expected = client.train_on(start, 2);
  EXPECT_EQ(reply.kind(), "train_done");
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 12U);
  EXPECT_EQ(hash(reply.get<State>("model")), hash(expected.state));
  EXPECT_EQ(reply.get<double>("loss"), expected.step_loss);
}

TEST(FedNclClient, CorrectsWhereTheReceivedModelIsSure) {  // N7
  Client client(12);
  const State sure = client.sure({0.91, 0.05, 0.04});
  EXPECT_EQ(hash(client.handle(sure, true).get<State>("model")),
            hash(client.train_on(sure, 0).state));
  const State unsure = client.sure({0.899, 0.061, 0.04});
  EXPECT_EQ(hash(client.handle(unsure, true).get<State>("model")),
            hash(client.train_on(unsure, 2).state));
}

TEST(FedNclClient, StartsEveryCorrectionFromTheGivenLabels) {  // N7
  Client client(12);
  client.handle(client.sure({0.95, 0.03, 0.02}), true);
  const State unsure = client.sure({0.3, 0.4, 0.3});
  EXPECT_EQ(hash(client.handle(unsure, true, LossRule::train_running, 4).get<State>("model")),
            hash(client.train_on(unsure, 2, 4).state));
  EXPECT_EQ(client.held.given, Labels(12, 2));
  EXPECT_FALSE(client.memory.trace.labels.has_value());
}

TEST(FedNclClient, RemembersWhatItLastCorrectedForTheRunToJudge) {
  Client client(12);
  client.handle(client.sure({0.95, 0.03, 0.02}), false);
  EXPECT_TRUE(client.memory.empty()) << "nothing was corrected";
  client.handle(client.sure({0.95, 0.03, 0.02}), true);
  EXPECT_EQ(client.memory.trace.last_labels, Labels(12, 0));
  client.handle(client.sure({0.3, 0.4, 0.3}), true);
  EXPECT_EQ(client.memory.trace.last_labels, Labels(12, 2)) << "the given ones again";
}

TEST(FedNclClient, CanBePulledTowardsTheReceivedModel) {
  Client client(12);
  FedNCL method;
  Params params;
  method.declare(params);
  params.read({{"mu", 0.5}}, "method");
  ClientContext context(7, client.held, client.memory, client.lane, client.options, 5);
  const State start = client.sure({0.95, 0.03, 0.02});
  const Message reply = method.client_side()->handle(Message("train")
                                                         .set("round", std::uint32_t{3})
                                                         .set("model", start)
                                                         .set("correct", std::uint8_t{0}),
                                                     context);
  const LocalSet set{client.held.samples, client.held.given};
  EXPECT_EQ(hash(reply.get<State>("model")),
            hash(client.lane.trainer()
                     .train(start, set, client.options, {.proximal = 0.5}, {5, 3, 7})
                     .state));
  EXPECT_NE(hash(reply.get<State>("model")), hash(client.train_on(start, 2).state));
}

TEST(FedNclClient, CanTrainAsFedDynDoes) {
  Client client(12);
  FedNCL method;
  Params params;
  method.declare(params);
  params.read({{"dyn_alpha", 0.5}}, "method");
  Client other(12);
  FedDyn dynamic;
  Params dynamic_params;
  dynamic.declare(dynamic_params);
  dynamic_params.read({{"alpha", 0.5}}, "method");
  const State start = client.sure({0.95, 0.03, 0.02});
  for (const std::uint32_t round : {0U, 1U}) {
    ClientContext context(7, client.held, client.memory, client.lane, client.options, 5);
    ClientContext other_context(7, other.held, other.memory, other.lane, other.options, 5);
    const Message task = Message("train").set("round", round).set("model", start);
    const Message reply =
        method.client_side()->handle(Message(task).set("correct", std::uint8_t{0}), context);
    EXPECT_EQ(hash(reply.get<State>("model")),
              hash(dynamic.client_side()->handle(task, other_context).get<State>("model")))
        << "round " << round;
    EXPECT_GT(reply.get<double>("loss"), 0.0);
    method.client_side()->check_memory(context);
  }
  EXPECT_FALSE(client.memory.own.tensors.empty()) << "the gradient is kept between rounds";
  client.memory.own.tensors.begin()->second = at::zeros({3});
  ClientContext forged(7, client.held, client.memory, client.lane, client.options, 5);
  EXPECT_THROW(method.client_side()->check_memory(forged), Error);
}

TEST(FedNclClient, ReportsTheMeanLossOfTheStepsWithTheLabelsInUse) {
  Client client(12);
  const State sure = client.sure({0.95, 0.03, 0.02});
  EXPECT_EQ(client.handle(sure, true).get<double>("loss"), client.train_on(sure, 0).step_loss);
  EXPECT_NE(client.handle(sure, true).get<double>("loss"),
            client.handle(sure, false).get<double>("loss"));
}

TEST(FedNclClient, EvalFinalMeasuresTheTrainedModel) {
  Client client(12);
  const State sure = client.sure({0.95, 0.03, 0.02});
  for (const bool correct : {false, true}) {
    const Message reply = client.handle(sure, correct, LossRule::eval_final);
    const Labels labels(12, correct ? 0 : 2);
    client.lane.scorer().load(reply.get<State>("model"));
    const Score score = client.lane.scorer().score(client.feed, {client.held.samples, labels}, 128);
    EXPECT_DOUBLE_EQ(reply.get<double>("loss"), score.loss_sum / 12.0);
    EXPECT_EQ(hash(reply.get<State>("model")),
              hash(client.handle(sure, correct).get<State>("model")))
        << "the extra pass changes nothing";
  }
}

TEST(FedNclClient, WorksWithASingleSample) {
  Client client(1);
  const State sure = client.sure({0.95, 0.03, 0.02});
  for (const LossRule loss : {LossRule::train_running, LossRule::eval_final}) {
    const Message reply = client.handle(sure, true, loss);
    EXPECT_EQ(reply.get<std::uint32_t>("samples"), 1U);
    EXPECT_TRUE(std::isfinite(reply.get<double>("loss")));
  }
}

TEST(FedNclClient, DoesNotDependOnTheScoringBatch) {
  Client client(12);
  Client small(12, {.epochs = 2, .batch_size = 5, .eval_batch = 5});
  const State sure = client.sure({0.95, 0.03, 0.02});
  EXPECT_EQ(hash(client.handle(sure, true).get<State>("model")),
            hash(small.handle(sure, true).get<State>("model")));
}

TEST(FedNclClient, IsMadeFromTheParameters) {
  Client client(12);
  FedNCL method;
  Params params;
  method.declare(params);
  params.read({{"confidence", 0.96}, {"loss", "eval_final"}}, "method");
  ClientContext context(7, client.held, client.memory, client.lane, client.options, 5);
  const State sure = client.sure({0.95, 0.03, 0.02});
  const Message reply = method.client_side()->handle(Message("train")
                                                         .set("round", std::uint32_t{3})
                                                         .set("model", sure)
                                                         .set("correct", std::uint8_t{1}),
                                                     context);
  EXPECT_EQ(context.steps(), 6);
  EXPECT_EQ(hash(reply.get<State>("model")), hash(client.train_on(sure, 2).state));
  EXPECT_EQ(reply.get<double>("loss"),
            client.handle(sure, false, LossRule::eval_final).get<double>("loss"));
}

}  // namespace winnow::fedncl::client_test

#include "winnow/method/base/feddyn/feddyn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "method/base_rounds.h"
#include "testing/support.h"
#include "winnow/method/base/fedprox/fedprox.h"

namespace winnow::feddyn::feddyn_test {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr const char* kGradient = "feddyn.gradient";

std::unique_ptr<FedDyn> feddyn(const Json& table = Json::object()) {
  auto method = std::make_unique<FedDyn>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

Upload upload(const State& model, std::uint32_t samples = 1, double factor = 1.0) {
  return {0, Message("train_done").set("model", model).set("samples", samples),
          static_cast<double>(samples), factor};
}

double correction_of(const FedDyn& method) {
  Archive archive;
  method.save(archive);
  return archive.tensors.at("feddyn.correction")[0].item<double>();
}

// A client whose loss is (steepness/2) (v - best)^2 and that finds the minimum of its objective
// exactly (spec: baselines 7).
struct Quadratic {
  double train(double w, double alpha) {
    const double v = (steepness * best + g + alpha * w) / (steepness + alpha);
    g = next_gradient(at::full({1}, g, at::kDouble), at::full({1}, w, at::kDouble),
                      at::full({1}, v, at::kDouble), alpha)
            .item<double>();
    return v;
  }

  double steepness;
  double best;
  double g = 0.0;
};

struct TwoQuadratics {
  static constexpr double kAlpha = 0.1;

  void play(std::vector<std::size_t> chosen = {0, 1}) {
    HandRound hand(w);
    method->begin(hand.round);
    for (const std::size_t client : chosen) {
      models[client] = clients[client].train(model(), kAlpha);
      method->add(hand.round, upload(state_of({static_cast<float>(models[client])})));
    }
    w = method->finish(hand.round);
  }
  double model() const { return w.flat[0].item<double>(); }

  std::unique_ptr<FedDyn> method = feddyn({{"alpha", kAlpha}});
  std::vector<Quadratic> clients{{1.0, 1.0}, {3.0, -1.0}};
  std::vector<double> models{0.0, 0.0};
  State w = state_of({0});
};

TEST(FedDyn, GivesTheWorkedRounds) {
  TwoQuadratics run;
  run.play();
  EXPECT_NEAR(run.models[0], 0.909091, 1e-6);
  EXPECT_NEAR(run.models[1], -0.967742, 1e-6);
  EXPECT_NEAR(run.clients[0].g, -0.090909, 1e-6);
  EXPECT_NEAR(run.clients[1].g, 0.096774, 1e-6);
  EXPECT_NEAR(correction_of(*run.method), 0.002933, 1e-6);
  EXPECT_NEAR(run.model(), -0.058651, 1e-6);
  run.play();
  run.play();
  EXPECT_NEAR(run.model(), -0.113862, 1e-6);
}

TEST(FedDyn, ReachesTheTrueOptimum) {
  TwoQuadratics run;
  for (int round = 0; round < 1000; ++round) {
    run.play();
  }
  EXPECT_NEAR(run.model(), -0.5, 1e-4);
  EXPECT_NEAR(run.clients[0].g, -1.5, 1e-4);
  EXPECT_NEAR(run.clients[1].g, 1.5, 1e-4);
  EXPECT_NEAR(run.models[0], -0.5, 1e-4);
  EXPECT_NEAR(run.models[1], -0.5, 1e-4);
}

TEST(FedDyn, MovesTheCorrectionByTheShareThatTookPart) {
  TwoQuadratics run;
  run.play({0});
  EXPECT_NEAR(correction_of(*run.method), -0.045455, 1e-6);
  EXPECT_NEAR(run.model(), 1.363636, 1e-6);
}

TEST(FedDyn, HoldsTheMeanOfTheGradientsWhoeverTakesPart) {
  TwoQuadratics run;
  for (const std::vector<std::size_t>& chosen :
       std::vector<std::vector<std::size_t>>{{0, 1}, {0, 1}, {1}, {0}, {0, 1}}) {
    run.play(chosen);
    EXPECT_NEAR(correction_of(*run.method), (run.clients[0].g + run.clients[1].g) / 2, 1e-6);
  }
}

TEST(FedDyn, ChangesNothingWhenNobodyMoves) {
  const auto method = feddyn();
  const State w = state_of({0.3F, -7}, {2}, {3});
  EXPECT_EQ(hash(fuse(*method, w, {upload(w, 3), upload(w, 5)})), hash(w));
  EXPECT_EQ(correction_of(*method), 0.0);
  EXPECT_TRUE(next_gradient(at::full({1}, 0.7), w.flat, w.flat, 0.1).eq(0.7F).all().item<bool>());

  fuse(*method, w, {upload(state_of({1, 1}, {2}, {3}))});
  const double before = correction_of(*method);
  fuse(*method, w, {upload(w), upload(w)});
  EXPECT_EQ(correction_of(*method), before) << "the correction stays in later rounds too";
}

TEST(FedDyn, WeighsAllAlikeButForBuffersAndTheFactorsOfAWrapper) {
  const State global = state_of({0}, {9}, {9});
  const auto next = [&](double factor) {
    const auto method = feddyn();
    return values_of(
        fuse(*method, global,
             {upload(state_of({1}, {0}, {10}), 100, factor), upload(state_of({3}, {4}, {11}), 300)},
             {100, 300}));
  };
  // The mean moves by 2, and all take part: w = 2 + 2.
  EXPECT_EQ(next(1.0), (std::vector<float>{4.0F, 3.0F, 11.0F}));
  EXPECT_EQ(next(0.0), (std::vector<float>{6.0F, 4.0F, 11.0F}));
}

TEST(FedDyn, CountsNoClientWithoutSamplesIntoTheFederation) {
  const auto method = feddyn({{"alpha", 0.5}});
  fuse(*method, state_of({0}), {upload(state_of({1}))}, {5, 0, 5, 0});
  EXPECT_DOUBLE_EQ(correction_of(*method), -0.25);
}

// As under ClipFL, which dismisses clients for good.
TEST(FedDyn, HoldsTheMeanOverAFederationThatShrinks) {
  const auto method = feddyn({{"alpha", 0.5}});
  fuse(*method, state_of({0}), {upload(state_of({8}))}, {1, 1, 1, 1});
  EXPECT_DOUBLE_EQ(correction_of(*method), -0.5 * 8.0 / 4);
  Archive archive;
  method->save(archive);
  archive = out_of_a_file(archive);
  archive.values = Json::parse(archive.values.dump());  // as a checkpoint does
  const auto resumed = feddyn({{"alpha", 0.5}});
  resumed->load(archive);
  for (FedDyn* each : {method.get(), resumed.get()}) {
    fuse(*each, state_of({0}), {upload(state_of({3}))});
    EXPECT_DOUBLE_EQ(correction_of(*each), -0.5 * (8.0 + 3.0) / 2);
  }
}

// As under ClipFL, which may leave out uploads of clients that it asked.
TEST(FedDyn, KnowsTheFederationFromTheRoundAndNotFromItsUploads) {
  const auto method = feddyn({{"alpha", 0.5}});
  HandRound hand(state_of({0}), {1, 1, 1, 1});
  hand.round.chosen = {0, 3};
  method->begin(hand.round);
  method->add(hand.round, upload(state_of({1})));
  EXPECT_DOUBLE_EQ(method->finish(hand.round).flat.item<double>(), 1.25);
  EXPECT_DOUBLE_EQ(correction_of(*method), -0.5 / 4);
}

TEST(FedDyn, ResumesBitForBit) {
  const std::vector<Upload> uploads{upload(state_of({0.2F, 0.9F}), 3),
                                    upload(state_of({0.1F, 1.1F}), 4)};
  const State start = state_of({0.3F, 0.7F});
  const auto whole = feddyn();
  const State middle = fuse(*whole, start, uploads, {3, 4, 5});
  Archive archive;
  whole->save(archive);
  const State end = fuse(*whole, middle, uploads, {3, 4, 5});
  const auto resumed = feddyn();
  resumed->load(archive);
  EXPECT_EQ(hash(fuse(*resumed, middle, uploads, {3, 4, 5})), hash(end));

  whole->load(archive);
  EXPECT_EQ(hash(fuse(*whole, middle, uploads, {3, 4, 5})), hash(end)) << "a round is taken back";
  whole->load({});
  EXPECT_EQ(hash(fuse(*whole, start, uploads, {3, 4, 5})), hash(middle))
      << "an empty archive clears";
}

// A client with 12 samples; two epochs of batches of five are six steps.
struct OneClient {
  Message answer(const BaseMethod& method) {
    ClientContext context(7, held, memory, lane, options, 5);
    Message reply = method.client_side()->handle(task_of(method, 3, 7, start), context);
    check(reply, method.exchanges({}));
    return reply;
  }

  DataSet data = tiny_data();
  Feed feed{data.train.images, data.normalisation, 0, at::kCPU};
  Lane lane{make_net<TwoLayerNet>(data), feed, false};
  ClientData held = deal(data, {12}).front();
  ClientMemory memory;
  TrainOptions options{.epochs = 2, .batch_size = 5, .lr = 0.1};
  State start = TwoLayerNet(shape_of(data)).weights().initial(1);
};

TEST(FedDyn, FirstParticipationIsFedProx) {
  OneClient client;
  const Message plain = client.answer(FedProx(0.3));
  const Message reply = client.answer(*feddyn({{"alpha", 0.3}}));
  EXPECT_EQ(hash(reply.get<State>("model")), hash(plain.get<State>("model")));
  EXPECT_EQ(reply.bytes(), plain.bytes()) << "no extra message";
  const at::Tensor way = reply.get<State>("model").parameters() - client.start.parameters();
  EXPECT_TRUE(at::allclose(client.memory.own.tensors.at(kGradient), -0.3 * way, 1e-5, 1e-7));
}

TEST(FedDyn, ClientSubtractsItsGradientFromThatOfEveryStep) {
  OneClient client;
  const auto method = feddyn({{"alpha", 0.3}});
  const at::Tensor g = at::linspace(-0.2, 0.3, client.start.layout->parameters());
  const at::Tensor untouched = g.clone();
  client.memory.own.tensors[kGradient] = g;
  const State moved = client.answer(*method).get<State>("model");
  const LocalSet set{client.held.samples, client.held.given};
  const State expected =
      client.lane.trainer()
          .train(client.start, set, client.options, {.proximal = 0.3, .drift = -g}, {5, 3, 7})
          .state;
  EXPECT_EQ(hash(moved), hash(expected));
  const at::Tensor way = moved.parameters() - client.start.parameters();
  EXPECT_TRUE(at::allclose(client.memory.own.tensors.at(kGradient), g - 0.3 * way, 1e-5, 1e-7));
  EXPECT_TRUE(g.equal(untouched)) << "a saved tensor is replaced, never changed";

  // One step over all samples: the pull is still zero, so it moves by lr * g more than FedAvg.
  client.options.epochs = 1;
  client.options.batch_size = 12;
  client.memory.own.tensors[kGradient] = g;
  const State with = client.answer(*method).get<State>("model");
  const State without =
      client.lane.trainer().train(client.start, set, client.options, {}, {5, 3, 7}).state;
  EXPECT_TRUE(at::allclose(with.parameters() - without.parameters(), 0.1 * g, 1e-4, 1e-6));
}

TEST(FedDyn, ClientThatDivergesKeepsItsGradient) {
  OneClient client;
  client.options.lr = 1e30;
  const at::Tensor g = at::full({client.start.layout->parameters()}, 1e20F);
  client.memory.own.tensors[kGradient] = g;
  EXPECT_FALSE(all_finite(client.answer(*feddyn()).get<State>("model")));
  EXPECT_TRUE(client.memory.own.tensors.at(kGradient).equal(g));
}

TEST(FedDyn, PlaysARoundWithFedAvgsMessagesAndRejectsWhatIsNotFinite) {
  const State start = state_of({1, 2, 3}, {4}, {5});
  FakeFleet fleet({2, 8, 1, 1}, [&](std::int64_t client, const Message&) {
    State model = start.clone();
    model.parameters().add_(client == 1 ? kNaN : 1.0F);
    return Message("train_done").set("model", model).set("samples", std::uint32_t{2});
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 4, .fraction = 1.0, .classes = 3};
  State global = start;
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  const auto method = feddyn({{"alpha", 0.5}});
  method->play(0, server);
  EXPECT_DOUBLE_EQ(correction_of(*method), -0.375) << "three of four moved by 1";
  EXPECT_EQ(values_of(global), (std::vector<float>{2.75F, 3.75F, 4.75F, 4, 5}));
  EXPECT_EQ(notes["rejected"], Json{1});
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NO_THROW(check(fleet.asked[i].task, method->exchanges({})));
    EXPECT_NO_THROW(check(fleet.replies[i], method->exchanges({})));
  }
  EXPECT_EQ(fleet.traffic().bytes_down, 4 * (4 + 4 * 5));
  EXPECT_EQ(fleet.traffic().bytes_up, 4 * (4 * 5 + 4));
}

TEST(FedDyn, HasTheDocumentedDefaults) {
  const MethodInfo info = feddyn_info();
  EXPECT_EQ(info.name, "feddyn");
  EXPECT_EQ(info.group, "base");
  const std::unique_ptr<Method> method = info.make();
  EXPECT_NE(dynamic_cast<BaseMethod*>(method.get()), nullptr);
  Params params;
  method->declare(params);
  EXPECT_EQ(params.values(), (Json{{"alpha", 0.01}}));
  EXPECT_THAT(error_text([] { feddyn({{"alpha", 0.0}}); }), testing::HasSubstr("method.alpha"));
}

}  // namespace winnow::feddyn::feddyn_test

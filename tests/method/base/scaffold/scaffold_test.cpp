#include "winnow/method/base/scaffold/scaffold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "method/base_rounds.h"
#include "testing/simulation.h"
#include "testing/support.h"
#include "winnow/method/base/fedavg/fedavg.h"

namespace winnow::scaffold::scaffold_test {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr const char* kControl = "scaffold.control";

std::unique_ptr<Scaffold> scaffold(const Json& table = Json::object()) {
  auto method = std::make_unique<Scaffold>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

Upload upload(std::int64_t client, const State& model, const State& change,
              std::uint32_t samples = 1, double factor = 1.0) {
  return {client,
          Message("train_done").set("model", model).set("samples", samples).set("control", change),
          static_cast<double>(samples), factor};
}

double control_of(const Scaffold& method) {
  Archive archive;
  method.save(archive);
  return archive.tensors.at(kControl)[0].item<double>();
}

// A client whose loss is (steepness/2) (v - best)^2, and that takes two steps of 0.1 (spec:
// baselines 6).
struct Quadratic {
  static constexpr int kSteps = 2;
  static constexpr double kLr = 0.1;

  double gradient(double v) const { return steepness * (v - best); }
  double train(double w, double drift) const {
    double v = w;
    for (int step = 0; step < kSteps; ++step) {
      v -= kLr * (gradient(v) + drift);
    }
    return v;
  }
  Upload answer(std::int64_t client, const Message& task) {
    const double w = task.get<State>("model").flat[0].item<double>();
    const at::Tensor server = task.get<State>("control").flat.to(at::kDouble);
    const double y = train(w, server.item<double>() - control);
    const at::Tensor change = control_change(server, at::full({1}, w, at::kDouble),
                                             at::full({1}, y, at::kDouble), kSteps * kLr);
    control += change.item<double>();
    return upload(client, state_of({static_cast<float>(y)}),
                  state_of({change.to(at::kFloat).item<float>()}), samples);
  }

  double steepness;
  double best;
  std::uint32_t samples = 1;
  double control = 0.0;
};

struct TwoQuadratics {
  explicit TwoQuadratics(const Json& table = Json::object()) : method(scaffold(table)) {}
  void play(std::vector<std::size_t> chosen = {0, 1}) {
    HandRound hand(w);
    method->begin(hand.round);
    const Message task = method->task(hand.round, 0);
    for (const std::size_t client : chosen) {
      method->add(hand.round, clients[client].answer(static_cast<std::int64_t>(client), task));
    }
    w = method->finish(hand.round);
  }
  double model() const { return w.flat[0].item<double>(); }

  std::unique_ptr<Scaffold> method;
  std::vector<Quadratic> clients{{1.0, 1.0}, {3.0, -1.0}};
  State w = state_of({0});
};

TEST(Scaffold, GivesTheWorkedRounds) {
  TwoQuadratics run;
  EXPECT_NEAR(run.clients[0].train(0, 0), 0.19, 1e-12);
  EXPECT_NEAR(run.clients[1].train(0, 0), -0.51, 1e-12);
  run.play();
  EXPECT_NEAR(run.model(), -0.16, 1e-6);
  EXPECT_NEAR(run.clients[0].control, -0.95, 1e-6);
  EXPECT_NEAR(run.clients[1].control, 2.55, 1e-6);
  EXPECT_NEAR(control_of(*run.method), 0.8, 1e-6);
  run.play();
  EXPECT_NEAR(run.model(), -0.2815, 1e-6);
  EXPECT_NEAR(control_of(*run.method), 0.6075, 1e-6);
}

TEST(Scaffold, ReachesTheTrueOptimumWhereFedAvgDoesNot) {
  TwoQuadratics run;
  double plain = 0.0;
  for (int round = 0; round < 200; ++round) {
    run.play();
    plain = (run.clients[0].train(plain, 0) + run.clients[1].train(plain, 0)) / 2;
  }
  EXPECT_NEAR(run.model(), -0.5, 1e-5);
  EXPECT_NEAR(plain, -0.457143, 1e-6);
  for (const Quadratic& client : run.clients) {
    EXPECT_NEAR(client.control, client.gradient(-0.5), 1e-4) << "c_k is the client's gradient";
  }
}

TEST(Scaffold, MovesTheControlByTheShareThatTookPart) {
  TwoQuadratics run;
  run.play({0});
  EXPECT_NEAR(run.model(), 0.19, 1e-6);
  EXPECT_NEAR(run.clients[0].control, -0.95, 1e-6);
  EXPECT_NEAR(control_of(*run.method), -0.475, 1e-6);
}

TEST(Scaffold, HoldsTheMeanOfTheControlsWhoeverTakesPart) {
  TwoQuadratics run;
  for (const std::vector<std::size_t>& chosen :
       std::vector<std::vector<std::size_t>>{{0, 1}, {1}, {0, 1}, {0}, {0}}) {
    run.play(chosen);
    EXPECT_NEAR(control_of(*run.method), (run.clients[0].control + run.clients[1].control) / 2,
                1e-6);
  }
}

// 0.25 f_1 + 0.75 f_2 is least at -0.8. With a plain mean of the controls the weights would cancel.
TEST(Scaffold, WeighedBySamplesReachesTheOptimumOfTheSamples) {
  TwoQuadratics run(Json{{"weighting", "samples"}});
  run.clients[1].samples = 3;
  for (int round = 0; round < 200; ++round) {
    run.play();
  }
  EXPECT_NEAR(run.model(), -0.8, 1e-5);
}

TEST(Scaffold, ScalesTheServersStep) {
  TwoQuadratics run(Json{{"server_lr", 0.5}});
  run.play();
  EXPECT_NEAR(run.model(), -0.08, 1e-6);
  EXPECT_NEAR(control_of(*run.method), 0.8, 1e-6) << "the control has no learning rate";
}

TEST(Scaffold, WeighsAllAlikeButForBuffersAndTheFactorsOfAWrapper) {
  const State global = state_of({0}, {9}, {9});
  const State zero = state_of({0}, {0}, {0});
  const auto next = [&](const Json& table, double factor) {
    const auto method = scaffold(table);
    return values_of(fuse(*method, global,
                          {upload(0, state_of({1}, {0}, {10}), zero, 100, factor),
                           upload(1, state_of({3}, {4}, {11}), zero, 300)},
                          {100, 300}));
  };
  EXPECT_EQ(next(Json::object(), 1.0), (std::vector<float>{2.0F, 3.0F, 11.0F}));
  EXPECT_EQ(next({{"weighting", "samples"}}, 1.0), (std::vector<float>{2.5F, 3.0F, 11.0F}));
  EXPECT_EQ(next(Json::object(), 0.0), (std::vector<float>{3.0F, 4.0F, 11.0F}));
}

TEST(Scaffold, CountsNoClientWithoutSamplesIntoTheFederation) {
  const auto method = scaffold();
  fuse(*method, state_of({0}), {upload(0, state_of({1}), state_of({3}))}, {5, 0, 5, 0});
  EXPECT_DOUBLE_EQ(control_of(*method), 1.5);
}

// As under ClipFL, which dismisses clients for good.
TEST(Scaffold, HoldsTheMeanOverAFederationThatShrinks) {
  const auto method = scaffold();
  fuse(*method, state_of({0}), {upload(0, state_of({1}), state_of({8}))}, {1, 1, 1, 1});
  EXPECT_DOUBLE_EQ(control_of(*method), 8.0 / 4);
  Archive archive;
  method->save(archive);
  archive = out_of_a_file(archive);
  archive.values = Json::parse(archive.values.dump());  // as a checkpoint does
  const auto resumed = scaffold();
  resumed->load(archive);
  for (Scaffold* each : {method.get(), resumed.get()}) {
    HandRound smaller(state_of({0}), {1, 1}, 1);
    each->begin(smaller.round);
    EXPECT_FLOAT_EQ(values_of(each->task(smaller.round, 0).get<State>("control")).front(), 4.0F)
        << "8 / 2";
    fuse(*each, state_of({0}), {upload(1, state_of({1}), state_of({3}))});
    EXPECT_DOUBLE_EQ(control_of(*each), (8.0 + 3.0) / 2);
    each->begin(smaller.round);
    EXPECT_DOUBLE_EQ(control_of(*each), (8.0 + 3.0) / 2) << "the same size changes nothing";
  }
}

TEST(Scaffold, RefusesAControlOfAnotherModel) {
  const auto method = scaffold();
  const auto add = [&](const State& change) {
    return [&method, change] {
      fuse(*method, state_of({0, 0}), {upload(6, state_of({1, 1}), change)});
    };
  };
  EXPECT_EQ(error_text(add(state_of({0}))), "models of different layouts cannot be averaged");
}

// As under ClipFL, which may leave out uploads of clients that it asked.
TEST(Scaffold, KnowsTheFederationFromTheRoundAndNotFromItsUploads) {
  const auto method = scaffold();
  HandRound hand(state_of({0}), {1, 1, 1, 1});
  hand.round.chosen = {0, 3};
  method->begin(hand.round);
  method->add(hand.round, upload(0, state_of({1}), state_of({1})));
  EXPECT_EQ(values_of(method->finish(hand.round)), std::vector<float>{1.0F});
  EXPECT_DOUBLE_EQ(control_of(*method), 1.0 / 4);
}

TEST(Scaffold, ResumesItsControlBitForBit) {
  const std::vector<Upload> uploads{upload(0, state_of({0.2F, 0.9F}), state_of({0.3F, -0.1F}), 3),
                                    upload(1, state_of({0.1F, 1.1F}), state_of({0.7F, 0.4F}), 4)};
  const State start = state_of({0.3F, 0.7F});
  const auto whole = scaffold();
  const State middle = fuse(*whole, start, uploads, {3, 4, 5});
  Archive archive;
  whole->save(archive);
  const auto control = [](const Scaffold& method, const State& global) {
    return hash(task_of(method, 1, 0, global).get<State>("control"));
  };
  const std::string saved = control(*whole, middle);
  const auto resumed = scaffold();
  resumed->load(archive);
  EXPECT_EQ(control(*resumed, middle), saved);
  fuse(*whole, middle, uploads, {3, 4, 5});
  fuse(*resumed, middle, uploads, {3, 4, 5});
  EXPECT_EQ(control(*resumed, middle), control(*whole, middle));
  EXPECT_NE(control(*whole, middle), saved);

  HandRound broken(middle, {3, 4, 5});
  whole->begin(broken.round);
  whole->load(archive);
  EXPECT_EQ(control(*whole, middle), saved) << "a round is taken back, even from its middle";
  whole->load({});
  EXPECT_EQ(values_of(task_of(*whole, 0, 0, start).get<State>("control")),
            (std::vector<float>{0, 0}))
      << "an empty archive clears";
}

// A client with 12 samples; two epochs of batches of five are six steps.
struct OneClient {
  Message answer(const Scaffold& method, const Message& task) {
    ClientContext context(7, held, memory, lane, options, 5);
    Message reply = method.client_side()->handle(task, context);
    check(task, method.exchanges({}));
    check(reply, method.exchanges({}));
    return reply;
  }
  // The task of round 3 with a control of `value` everywhere.
  Message task(const Scaffold& method, float value) const {
    State control = State::zeros(start.layout);
    control.parameters().fill_(value);
    return task_of(BaseMethod(method), 3, 7, start).set("control", control);
  }
  State trained(double momentum, const at::Tensor& drift) {
    TrainOptions changed = options;
    changed.momentum = momentum;
    return lane.trainer()
        .train(start, {held.samples, held.given}, changed, {.drift = drift}, {5, 3, 7})
        .state;
  }

  DataSet data = tiny_data();
  Feed feed{data.train.images, data.normalisation, 0, at::kCPU};
  Lane lane{make_net<NormNet>(data), feed, false};
  ClientData held = deal(data, {12}).front();
  ClientMemory memory;
  TrainOptions options{.epochs = 2, .batch_size = 5, .lr = 0.1, .lr_decay = 0.5, .momentum = 0.9};
  State start = NormNet(shape_of(data)).weights().initial(1);
};

TEST(Scaffold, FirstParticipationIsPlainSgd) {
  OneClient client;
  const auto method = scaffold();
  const Message reply = client.answer(*method, task_of(*method, 3, 7, client.start));
  EXPECT_EQ(hash(reply.get<State>("model")), hash(client.trained(0.0, {})));
  EXPECT_NE(hash(reply.get<State>("model")), hash(client.trained(0.9, {})));
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 12U);
}

TEST(Scaffold, ClientAddsTheDifferenceOfTheControlsToEveryGradient) {
  OneClient client;
  const auto method = scaffold();
  const at::Tensor own = at::linspace(-0.2, 0.3, client.start.layout->parameters());
  client.memory.own.tensors[kControl] = own;
  const Message reply = client.answer(*method, client.task(*method, 0.25F));
  EXPECT_EQ(hash(reply.get<State>("model")), hash(client.trained(0.0, 0.25 - own)));

  // One step over all samples moves by exactly -lr (c - c_k) more than without controls.
  client.options.epochs = 1;
  client.options.batch_size = 12;
  client.memory.own.tensors[kControl] = own;
  const State with = client.answer(*method, client.task(*method, 0.25F)).get<State>("model");
  const State without = client.trained(0.0, {});
  EXPECT_TRUE(
      at::allclose(with.parameters() - without.parameters(), -0.1 / 8 * (0.25 - own), 1e-4, 1e-6));
}

TEST(Scaffold, ClientRemembersTheMeanGradientOfItsWay) {
  OneClient client;
  const auto method = scaffold();
  const at::Tensor own = at::linspace(-0.2, 0.3, client.start.layout->parameters());
  const at::Tensor untouched = own.clone();
  client.memory.own.tensors[kControl] = own;
  const Message reply = client.answer(*method, client.task(*method, 0.25F));
  // Six steps at the learning rate of round 3: 0.1 / 8.
  const at::Tensor way =
      (client.start.parameters() - reply.get<State>("model").parameters()) / (6 * 0.1 / 8);
  const at::Tensor next = client.memory.own.tensors.at(kControl);
  const State& change = reply.get<State>("control");
  EXPECT_TRUE(at::allclose(next, own - 0.25 + way, 1e-4, 1e-6));
  EXPECT_TRUE(at::allclose(change.parameters(), next - own, 1e-4, 1e-6));
  EXPECT_TRUE(own.equal(untouched)) << "a saved tensor is replaced, never changed";
  EXPECT_EQ(change.buffers().count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(change.counters().count_nonzero().item<std::int64_t>(), 0);
}

TEST(Scaffold, ClientThatDivergesKeepsItsControl) {
  OneClient client;
  const auto method = scaffold();
  const at::Tensor own = at::full({client.start.layout->parameters()}, 0.1);
  client.memory.own.tensors[kControl] = own;
  const Message reply = client.answer(*method, client.task(*method, 1e38F));
  EXPECT_FALSE(all_finite(reply.get<State>("model")));
  EXPECT_TRUE(client.memory.own.tensors.at(kControl).equal(own));
  EXPECT_EQ(reply.get<State>("control").flat.count_nonzero().item<std::int64_t>(), 0);
}

TEST(Scaffold, ClientThatDoesNotMoveKeepsItsControl) {
  OneClient client;
  client.options.lr = 0.0;
  const auto method = scaffold();
  const Message reply = client.answer(*method, client.task(*method, 0.25F));
  EXPECT_TRUE(client.memory.empty());
  EXPECT_EQ(reply.get<State>("control").flat.count_nonzero().item<std::int64_t>(), 0);
}

// The models after each round of a method over four clients.
std::vector<State> models_of(Method& method) {
  const DataSet data = tiny_data();
  Simulation engine(data, deal(data, {10, 25, 5, 20}), net_info<NormNet>("norm"),
                    {.epochs = 1, .batch_size = 6, .lr = 0.1, .momentum = 0.0},
                    {.lanes = 2, .seed = 5}, nullptr);
  engine.serve(method.client_side(), method.exchanges({}));
  const Setting setting{
      .seed = 5, .rounds = 2, .clients = 4, .fraction = 0.75, .classes = data.classes};
  State global = engine.initial_state(5);
  std::vector<State> models;
  for (std::int64_t round = 0; round < 2; ++round) {
    Json notes = Json::object();
    Server server{setting, engine, global, notes};
    method.play(round, server);
    engine.commit();
    models.push_back(global);
  }
  return models;
}

// spec: baselines T3
TEST(Scaffold, FirstRoundIsFedAvgBitForBit) {
  FedAvg fedavg;
  const std::vector<State> plain = models_of(fedavg);
  const std::vector<State> controlled = models_of(*scaffold({{"weighting", "samples"}}));
  EXPECT_EQ(hash(plain[0]), hash(controlled[0]));
  EXPECT_GT(distance(plain[1], controlled[1]), 1e-4);
}

// Three parameters, one buffer and one counter: P = 5 values. spec: baselines T6
TEST(Scaffold, SendsTwoModelsEachWayAndRejectsWhatIsNotFinite) {
  const State start = state_of({1, 2, 3}, {4}, {5});
  FakeFleet fleet({2, 8, 1}, [&](std::int64_t client, const Message&) {
    State model = start.clone();
    model.parameters().add_(1.0);
    if (client == 1) {
      model.flat[1] = kNaN;
    }
    State change = State::zeros(start.layout);
    change.parameters().fill_(3.0);
    return Message("train_done")
        .set("model", model)
        .set("samples", std::uint32_t{2})
        .set("control", change);
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 3, .fraction = 1.0, .classes = 3};
  State global = start;
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  const auto method = scaffold();
  method->play(0, server);
  EXPECT_EQ(values_of(global), (std::vector<float>{2, 3, 4, 4, 5}));
  EXPECT_EQ(notes["rejected"], Json{1});
  EXPECT_DOUBLE_EQ(control_of(*method), 2.0) << "two of three clients by 3";

  ASSERT_EQ(fleet.asked.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NO_THROW(check(fleet.asked[i].task, method->exchanges({})));
    EXPECT_NO_THROW(check(fleet.replies[i], method->exchanges({})));
    EXPECT_EQ(fleet.asked[i].task.get<State>("control").flat.data_ptr(),
              fleet.asked[0].task.get<State>("control").flat.data_ptr())
        << "all tasks share one control";
  }
  EXPECT_EQ(fleet.asked[0].task.bytes(), 4 + 2 * 4 * 5);
  EXPECT_EQ(fleet.replies[0].bytes(), 2 * 4 * 5 + 4);
  EXPECT_EQ(fleet.traffic().bytes_down, 3 * 44);
  EXPECT_EQ(fleet.traffic().bytes_up, 3 * 44);
}

TEST(Scaffold, HasTheDocumentedDefaults) {
  const MethodInfo info = scaffold_info();
  EXPECT_EQ(info.name, "scaffold");
  EXPECT_EQ(info.group, "base");
  const std::unique_ptr<Method> method = info.make();
  EXPECT_NE(dynamic_cast<BaseMethod*>(method.get()), nullptr);
  Params params;
  method->declare(params);
  EXPECT_EQ(params.values(), (Json{{"server_lr", 1.0}, {"weighting", "mean"}}));
  EXPECT_THAT(error_text([] {
                scaffold({{"server_lr", -1.0}});
              }),
              testing::HasSubstr("method.server_lr"));
  EXPECT_THAT(error_text([] {
                scaffold({{"weighting", "loss"}});
              }),
              testing::HasSubstr("method.weighting"));
}

}  // namespace winnow::scaffold::scaffold_test

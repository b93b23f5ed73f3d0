#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "testing/simulation.h"
#include "testing/support.h"
#include "winnow/method/system/clipfl/clipfl.h"

namespace winnow::clipfl::clipfl_training_test {

using Ids = std::vector<std::int64_t>;

std::unique_ptr<ClipFL> clipfl(const Json& table) {
  auto method = std::make_unique<ClipFL>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

TEST(ClipFL, ClientAnswersItsDismissalWithoutTraining) {
  const DataSet data = tiny_data();
  const Feed feed(data.train.images, data.normalisation, 0, at::kCPU);
  Lane lane(make_net<TwoLayerNet>(data), feed, false);
  const ClientData held = deal(data, {12}).front();
  ClientMemory memory;
  ClientContext context(7, held, memory, lane, {.epochs = 1, .batch_size = 6}, 5);
  const auto method = clipfl(Json::object());
  const auto side = method->client_side();

  const Message gone = side->handle(Message("dismiss").set("reason", std::uint8_t{1}), context);
  EXPECT_EQ(gone.kind(), "dismissed");
  EXPECT_EQ(gone.bytes(), 0);
  EXPECT_NO_THROW(check(gone, method->exchanges({})));
  EXPECT_EQ(context.steps(), 0);

  const State start = TwoLayerNet(shape_of(data)).weights().initial(1);
  const Message trained =
      side->handle(Message("train").set("round", std::uint32_t{0}).set("model", start), context);
  EXPECT_NO_THROW(check(trained, method->exchanges({})));
  EXPECT_EQ(context.steps(), 2);
  EXPECT_TRUE(memory.empty());
}

// A real federation of five clients, client 4 with labels turned round.
struct Trained {
  std::vector<std::string> hashes;
  Findings findings;
};

Trained train(Method& method, std::int64_t lanes = 2) {
  DataSet data = tiny_data(90);
  data.validation = data.test;
  std::vector<ClientData> clients = deal(data, {10, 25, 5, 20, 30});
  for (std::int64_t& label : clients[4].given) {
    label = (label + 1) % 3;
  }
  Simulation engine(data, std::move(clients), net_info<TwoLayerNet>("two_layers"),
                    {.epochs = 4, .batch_size = 5, .lr = 0.1}, {.lanes = lanes, .seed = 5},
                    nullptr);
  engine.serve(method.client_side(), method.exchanges({}));
  const Setting setting{.seed = 5,
                        .rounds = 4,
                        .clients = 5,
                        .fraction = 0.8,
                        .classes = data.classes,
                        .validation = data.validation.size()};
  State global = engine.initial_state(5);
  Trained trained;
  for (std::int64_t round = 0; round < 4; ++round) {
    Json notes = Json::object();
    Server server{setting, engine, global, notes,
                  [&](const std::vector<State>& models) { return engine.validate(models); }};
    method.play(round, server);
    trained.hashes.push_back(hash(global));
  }
  trained.findings = method.findings();
  return trained;
}

// Their control and correction are means over the federation, which pruning makes smaller.
TEST(ClipFL, ABaseThatCountsTheFederationCountsWhoIsLeft) {
  for (const char* base : {"scaffold", "feddyn"}) {
    const auto federation = [&](std::int64_t pre_rounds) {
      const auto method =
          clipfl({{"base", base}, {"pre_rounds", pre_rounds}, {"keep", 2}, {"prune", 0.4}});
      train(*method);
      Archive archive;
      method->save(archive);
      return archive.values.at("base").at(std::string(base) + ".federation").get<std::int64_t>();
    };
    EXPECT_EQ(federation(4), 5) << base << ": four rounds, nobody is pruned";
    EXPECT_EQ(federation(2), 3) << base;
  }
}

// spec: label-noise C.7 #9, #11
TEST(ClipFL, WithoutDroppingIsItsBaseBitForBit) {
  const std::vector<Json> bases{{{"name", "fedavg"}},
                                {{"name", "fedprox"}, {"mu", 0.5}},
                                {{"name", "fednova"}, {"server_momentum", 0.5}},
                                {{"name", "fedadam"}, {"lr", 0.02}},
                                {{"name", "fedavgm"}}};
  for (const Json& base : bases) {
    const std::unique_ptr<Method> plain =
        builtin_methods().find(base["name"].get<std::string>()).make();
    Params params;
    plain->declare(params);
    params.read(base, "method", {"name"});
    const std::vector<std::string> expected = train(*plain).hashes;
    const auto hashes = [&](std::int64_t keep, const std::string& fuse) {
      return train(*clipfl({{"base", base},
                            {"pre_rounds", 2},
                            {"keep", keep},
                            {"prune", 0.0},
                            {"fuse", fuse}}))
          .hashes;
    };
    EXPECT_EQ(hashes(4, "kept"), expected) << base;
    EXPECT_EQ(hashes(1, "all"), expected) << base;
    EXPECT_NE(hashes(2, "kept"), expected) << base;
  }
}

TEST(ClipFL, PrunesAClientWithWrongLabelsWhateverTheLanes) {
  const Json table{{"pre_rounds", 3}, {"keep", 2}, {"prune", 0.2}};
  const Trained one = train(*clipfl(table), 1);
  const Trained three = train(*clipfl(table), 3);
  EXPECT_EQ(one.findings.flagged, Ids{4});
  EXPECT_EQ(one.hashes, three.hashes);
  EXPECT_EQ(one.findings.scores, three.findings.scores);
}

}  // namespace winnow::clipfl::clipfl_training_test

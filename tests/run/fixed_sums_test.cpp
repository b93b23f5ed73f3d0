// Runs with federation.sums = "fixed": every method that says it can does, and every other refuses.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/method_schedules.h"
#include "run/small_run.h"
#include "testing/errors.h"

namespace winnow::fixed_sums_test {

using ::testing::HasSubstr;

void play_to_end(Session& session) {
  while (session.rounds_done() < session.rounds()) {
    session.play();
  }
}

std::vector<std::string> names_of(bool playing) {
  std::vector<std::string> names;
  const Registry registry = builtin_registry();
  for (const MethodInfo& info : registry.methods) {
    if (registry.make(info.name)->server_needs().plays_sums == playing) {
      names.push_back(info.name);
    }
  }
  return names;
}

class MethodInSums : public ::testing::TestWithParam<std::string> {};

// Client memory, drop-outs and the server's state are all in it.
TEST_P(MethodInSums, EndsInTheSameBitsForAnyLanesAndAfterACheckpoint) {
  const Experiment experiment =
      experiment_with(GetParam(), {"federation.sums=\"fixed\"", "federation.dropout=0.2"});
  Session one(experiment, methods(), on_cpu(1), nullptr);
  Runtime wire = on_cpu(3);
  wire.wire = true;
  Session more(experiment, methods(), wire, nullptr);
  std::optional<Checkpoint> middle;
  while (one.rounds_done() < one.rounds()) {
    one.play();
    more.play();
    if (one.rounds_done() == (one.rounds() + 1) / 2) {
      middle = one.checkpoint();
    }
  }
  EXPECT_EQ(hashes(more.history()), hashes(one.history()));
  Session resumed(experiment, methods(), on_cpu(), nullptr);
  resumed.restore(*middle);
  play_to_end(resumed);
  EXPECT_EQ(hashes(resumed.history()), hashes(one.history()));
}

// A sum on a fine grid is the same method: after one round the models are as near as the grid.
TEST_P(MethodInSums, IsTheMethodThatItIsInDoublePrecision) {
  Session fixed(experiment_with(GetParam(), {"federation.sums=\"fixed\""}), methods(), on_cpu(),
                nullptr);
  Session floating(experiment_with(GetParam()), methods(), on_cpu(), nullptr);
  fixed.play();
  floating.play();
  EXPECT_EQ(fixed.history().back().traffic.bytes_up, floating.history().back().traffic.bytes_up);
  const double apart = (fixed.global().flat - floating.global().flat).abs().max().item<double>();
  // An adaptive server divides by its second moment, which is small at first.
  EXPECT_LT(apart, GetParam() == "fedadam" || GetParam() == "fedyogi" || GetParam() == "fedadagrad"
                       ? 1e-3
                       : 1e-6);
}

INSTANTIATE_TEST_SUITE_P(All, MethodInSums, ::testing::ValuesIn(names_of(true)),
                         [](const auto& info) { return info.param; });

class MethodOfModels : public ::testing::TestWithParam<std::string> {};

TEST_P(MethodOfModels, RefusesFixedSumsByNameAndWithTheReason) {
  const std::string refused =
      error_text([&] { experiment_with(GetParam(), {"federation.sums=\"fixed\""}); });
  EXPECT_THAT(refused, HasSubstr("federation.sums = \"fixed\": the server of " + GetParam() +
                                 " needs individual models"));
  EXPECT_THAT(refused, HasSubstr(builtin_registry().make(GetParam())->server_needs().why));
}

INSTANTIATE_TEST_SUITE_P(All, MethodOfModels, ::testing::ValuesIn(names_of(false)),
                         [](const auto& info) { return info.param; });

TEST(FixedSums, AWrapperGoesByItsBase) {
  EXPECT_NO_THROW(experiment_with("oracle", {"federation.sums=\"fixed\""}));
  EXPECT_THAT(error_text([] {
                experiment_with("oracle", {"federation.sums=\"fixed\"", "method.base=\"krum\""});
              }),
              HasSubstr("the server of oracle needs individual models: it measures the distances"));
}

TEST(FixedSums, TheDefaultHasTheHashItAlwaysHad) {
  const Experiment plain = small();
  const Experiment said = small({"federation.sums=\"float\""});
  EXPECT_EQ(plain.hash(), said.hash());
  EXPECT_NE(plain.hash(), small({"federation.sums=\"fixed\""}).hash());
  EXPECT_THAT(error_text([] { small({"federation.sums=\"double\""}); }),
              HasSubstr("federation.sums = \"double\": expected one of float, fixed"));
  EXPECT_THAT(error_text([] {
                small({"federation.sums=\"fixed\"", "federation.clients=2000000"});
              }),
              HasSubstr("federation.clients = 2000000: fixed sums take at most 1048576"));
}

// Sends what no sum takes; the others go on without it.
class Overflowing final : public FedAvg {
 public:
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override {
    return std::make_unique<ScriptedClient>([](const Message& task, ClientContext& context) {
      State model = task.get<State>("model").clone();
      model.flat.add_(1.0);
      if (context.id() == 1) {
        model.flat[0] = 4097.0;
      }
      return Message("train_done")
          .set("model", std::move(model))
          .set("samples", static_cast<std::uint32_t>(context.size()));
    });
  }
};

TEST(FixedSums, AValueOutOfRangeIsRefusedAndNeverClipped) {
  Registry registry = methods();
  registry.methods.add({"overflowing", "test", "", [] { return std::make_unique<Overflowing>(); }});
  const Experiment experiment =
      parse_experiment(small_tree({"federation.sums=\"fixed\"", "federation.fraction=1.0",
                                   "rounds=1", "method.name=\"overflowing\""}),
                       registry);
  Session session(experiment, registry, on_cpu(), nullptr);
  const State before = session.global();
  const Session::Played played = session.play();
  EXPECT_EQ(played.notes.at("rejected"), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(played.notes.at("rejected_because"),
            "values that are not finite or do not fit into a sum");
  const at::Tensor moved = session.global().parameters() - before.parameters();
  EXPECT_TRUE(at::allclose(moved, at::ones_like(moved), 0.0, 1e-6));
}

TEST(FixedSums, WhenNobodyFitsTheRunSaysSo) {
  const Experiment experiment = small({"federation.sums=\"fixed\"", "train.lr=1e9"});
  Session session(experiment, methods(), on_cpu(), nullptr);
  EXPECT_THAT(error_text([&] { play_to_end(session); }),
              HasSubstr("every reply held values that are not finite, or too large for a sum | the "
                        "training diverged: lower train.lr"));
}

}  // namespace winnow::fixed_sums_test

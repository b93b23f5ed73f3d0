// A federation with secure sums over TLS on loopback: server and members as they really are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/served.h"
#include "run/method_schedules.h"
#include "testing/errors.h"

namespace winnow::secure_sums_test {

using ::testing::HasSubstr;

// FedAvg of which a client fails at some trainings.
class Failing final : public FedAvg {
 public:
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  using Fails = std::function<bool(std::int64_t round, std::int64_t client)>;
  explicit Failing(Fails fails) : fails_(std::move(fails)) {}

  std::unique_ptr<ClientSide> client_side() const override {
    return std::make_unique<ScriptedClient>(
        [fails = fails_](const Message& task, ClientContext& context) {
          const std::int64_t round = round_of(task);
          if (fails && fails(round, context.id())) {
            throw Error(ErrorKind::run, "the disk is full");
          }
          TrainOutcome outcome = context.train(task.get<State>("model"), round, {});
          return Message("train_done")
              .set("model", std::move(outcome.state))
              .set("samples", static_cast<std::uint32_t>(context.size()));
        });
  }

 private:
  Fails fails_;
};

Registry registry_with(const Failing::Fails& fails = {}) {
  Registry registry = methods();
  registry.methods.add(
      {"failing", "test", "", [fails] { return std::make_unique<Failing>(fails); }});
  return registry;
}

Experiment experiment_of(const std::vector<std::string>& sets = {}) {
  Json tree =
      small_tree({"federation.clients=5", "federation.fraction=1.0", "rounds=3", "data.samples=200",
                  "federation.sums=\"fixed\"", "method.name=\"failing\""});
  for (const std::string& text : sets) {
    const Override change = parse_override(text);
    set_by_path(tree, change.key, parse_toml_value(change.value));
  }
  return parse_experiment(tree, registry_with());
}

std::string simulated_hash(const Experiment& experiment) {
  return simulated(experiment, registry_with()).at("model_hash");
}

struct How {
  bool secure = true;
  Failing::Fails fails = {};
  double deadline = 60;
  int stops_after = 0;  // replies; the server is then started again
};

// What a federation of the experiment ends in; five members, each with a connection of its own.
std::string served_hash(const std::filesystem::path& place, const How& how) {
  return served_hash(experiment_of(), place,
                     {.registry = registry_with(),
                      .members_registry = registry_with(how.fails),
                      .settings = {{"serve.deadline", std::to_string(how.deadline)},
                                   {"serve.secure_sums", how.secure ? "true" : "false"}},
                      .one_connection_each = true,
                      .stops_after = how.stops_after});
}

TEST(SecureSums, MaskedUnmaskedAndSimulatedRunsHaveOneHash) {
  const TestFolder folder;
  const std::string expected = simulated_hash(experiment_of());
  EXPECT_EQ(served_hash(folder / "masked", {}), expected);
  EXPECT_EQ(served_hash(folder / "unmasked", {.secure = false}), expected);
  EXPECT_NE(simulated_hash(experiment_of({"federation.sums=\"float\""})), expected);
}

// It has told its keys and shared them; then its training fails until the time is up.
TEST(SecureSums, AMemberThatDropsOutAfterSharingIsAnAbsenceOfTheSimulation) {
  const TestFolder folder;
  const How how{
      .fails = [](std::int64_t round, std::int64_t client) { return round == 1 && client == 3; },
      .deadline = 12};
  const std::string model = served_hash(folder / "served", how);
  EXPECT_NE(model, simulated_hash(experiment_of()));
  EXPECT_EQ(model,
            simulated_hash(experiment_of({"federation.absences=\"" +
                                          (folder / "served/run/events.jsonl").string() + "\""})));
}

// A round has 20 replies: it ends among the models of the second one, and goes on from there.
TEST(SecureSums, AServerThatIsStartedAgainGoesOnWithTheSumUnderWay) {
  const TestFolder folder;
  EXPECT_EQ(served_hash(folder / "served", {.stops_after = 33}), simulated_hash(experiment_of()));
}

TEST(SecureSums, AreRefusedWhereTheyWouldHideNothing) {
  const auto says = [](const std::vector<std::string>& sets, const net::ServeOptions& options) {
    return error_text([&] { net::check_sums(options, experiment_of(sets)); });
  };
  net::ServeOptions secure;
  secure.secure_sums = true;
  EXPECT_EQ(says({}, secure), "no error");
  EXPECT_THAT(says({"federation.sums=\"float\""}, secure),
              HasSubstr("serve.secure_sums = true: it needs federation.sums = \"fixed\""));
  EXPECT_THAT(says({"federation.fraction=0.4"}, secure),
              HasSubstr("serve.secure_sums = true: a round has 2 members, expected 3 to 500"));
  EXPECT_THAT(says({"federation.clients=1000"}, {}),
              HasSubstr("serve.samples_at_most = 10000000: fixed sums of 1000 members take at most "
                        "1073741"));
  net::ServeOptions strict = secure;
  strict.strict = true;
  EXPECT_THAT(
      says({}, strict),
      HasSubstr("serve.strict = true: with secure_sums the server sees no individual model"));
  net::ServeOptions banded = secure;
  banded.norm_band = 3.0;
  EXPECT_THAT(says({}, banded), HasSubstr("serve.norm_band: with secure_sums the server sees"));
}

}  // namespace winnow::secure_sums_test

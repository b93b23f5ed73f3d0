// A federation with secure sums over TLS on loopback: server and members as they really are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "run/method_schedules.h"
#include "run/small_run.h"
#include "testing/errors.h"
#include "winnow/net/join/take_part.h"
#include "winnow/net/pki/authority.h"
#include "winnow/net/serve/serving.h"
#include "winnow/run/deal.h"

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
  Session session(experiment, registry_with(), on_cpu(), nullptr);
  while (session.rounds_done() < session.rounds()) {
    session.play();
  }
  return session.model_hash();
}

struct How {
  bool secure = true;
  Failing::Fails fails = {};
  double deadline = 60;
  int stops_after = 0;  // replies; the server is then started again
};

void write_server_credentials(const std::filesystem::path& folder, Authority& authority) {
  const Credentials server = authority.issue_server({"localhost"});
  std::filesystem::create_directories(folder);
  write_file_whole(folder / "server.pem", server.certificate);
  write_secret(folder / "server.key", server.key);
  write_file_whole(folder / "authority.pem", server.authority);
}

// What a federation of the experiment ends in; five members, each with a connection of its own.
std::string served_hash(const std::filesystem::path& place, const How& how) {
  deal_out(experiment_of(), registry_with(), place);
  Authority authority = Authority::create(place / "authority", "five");
  write_server_credentials(place / "pki", authority);
  const auto file_with = [&](std::uint16_t port) {
    return net::load_serve_file(place / "federation.toml",
                                {{"serve.port", std::to_string(port)},
                                 {"serve.deadline", std::to_string(how.deadline)},
                                 {"serve.samples_at_most", "1000"},
                                 {"serve.secure_sums", how.secure ? "true" : "false"}});
  };
  std::promise<std::uint16_t> port;
  std::string charter;
  std::atomic<bool> stop = false;
  std::atomic<int> replies = 0;
  net::ServeCall call;
  call.directory = place / "run";
  call.runtime = on_cpu(1);
  call.farewell = 120;  // who has to wait before it asks again must still hear of the end
  call.stop = &stop;
  call.say = [&](const std::string& line) {
    if (line.starts_with("charter ")) {
      charter = line.substr(8);
    }
  };
  call.listening = [&](std::uint16_t listens, std::uint16_t) { port.set_value(listens); };
  call.fail = [&](std::string_view point) {
    stop = stop || (point == net::kAfterVerdict && ++replies == how.stops_after);
  };
  std::future<RunOutcome> outcome = std::async(
      std::launch::async, [&] { return net::serve(file_with(0), registry_with(), call); });
  const std::uint16_t listens = port.get_future().get();
  std::vector<std::future<member::Outcome>> members;
  for (std::int64_t client = 0; client < 5; ++client) {
    const std::string name = member_name(client);
    const Credentials own = authority.issue_client(name);
    members.push_back(std::async(std::launch::async, [&, name, own] {
      member::PartOptions options;
      options.server = {"localhost", listens};
      options.agree = charter;
      options.runtime = on_cpu(1);
      return member::take_part({{name, own, place / (name + ".npz"), place / ("state-" + name)}},
                               registry_with(how.fails), options);
    }));
  }
  RunOutcome done = outcome.get();
  if (how.stops_after > 0) {
    EXPECT_TRUE(done.interrupted);
    stop = false;
    call.fail = {};
    call.listening = {};
    call.say = {};
    done = net::serve(file_with(listens), registry_with(), call);
  }
  for (std::future<member::Outcome>& one : members) {
    EXPECT_EQ(one.get().finished, 1U);
  }
  return done.summary.at("model_hash");
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

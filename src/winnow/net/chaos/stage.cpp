#include "winnow/net/chaos/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "winnow/base/files.h"
#include "winnow/base/json.h"
#include "winnow/base/text.h"
#include "winnow/experiment/toml.h"
#include "winnow/net/chaos/outcome.h"
#include "winnow/net/chaos/sockets.h"
#include "winnow/net/serve/database.h"
#include "winnow/run/absences.h"
#include "winnow/run/deal.h"
#include "winnow/run/run_directory.h"
#include "winnow/run/runner.h"
#include "winnow/run/session.h"
#include "winnow/run/summary.h"

namespace winnow::chaos {
namespace {

namespace fs = std::filesystem;

constexpr double kLongestStart = 120.0;  // seconds, on a machine that is busy

constexpr const char* kUsual = R"(name = "chaos"
seed = 1
rounds = 6
checkpoint_every = 1
[data]
name = "synthetic"
samples = 120
test_samples = 40
classes = 4
[federation]
clients = 4
fraction = 1.0
partition = "iid_split"
[train]
epochs = 1
lr = 0.05
)";

void write_credentials(const fs::path& folder, const std::string& name,
                       const Credentials& credentials) {
  write_file_whole(folder / (name + ".pem"), credentials.certificate);
  write_secret(folder / (name + ".key"), credentials.key);
}

std::vector<Json> lines_of(const fs::path& file) {
  std::vector<Json> found;
  if (!fs::exists(file)) {
    return found;
  }
  for (const std::string& line : split(read_file(file), '\n')) {
    Json json = parse_json_or_null(line);
    if (json.is_object()) {
      found.push_back(std::move(json));
    }
  }
  return found;
}

}  // namespace

Stage::Stage(const Registry& its_registry, fs::path its_folder, std::uint64_t its_seed,
             const std::atomic<bool>* its_stop)
    : registry(its_registry),
      folder(std::move(its_folder)),
      seed(its_seed),
      stop(its_stop),
      authority(Authority::create(folder / "authority", "chaos")) {
  fs::create_directory(pki());
  write_file_whole(pki() / "authority.pem", authority.certificate());
  for (std::int64_t client = 0; client < kMembers; ++client) {
    write_credentials(pki(), member_name(client), authority.issue_client(member_name(client)));
  }
  write_credentials(pki(), "server", authority.issue_server({kHere, kFarSide}));
  constexpr std::int64_t kDaySeconds = 86'400;
  const std::int64_t now = std::time(nullptr);
  write_credentials(pki(), "tomorrow",
                    authority.issue_server({"tomorrow.invalid", kHere},
                                           Validity{now + kDaySeconds, now + 9 * kDaySeconds}));
}

Credentials Stage::credentials(const std::string& name) const {
  return read_credentials(pki() / (name + ".pem"), pki() / (name + ".key"),
                          pki() / "authority.pem");
}

Federation::Federation(const Stage& stage, const fs::path& folder, Settings settings)
    : stage_(stage), folder_(folder), settings_(std::move(settings)), port_(quiet_port()) {
  fs::create_directories(folder_);
  deal_out(experiment(), stage_.registry, folder_ / "dealt");
}

Experiment Federation::experiment(const std::vector<std::string>& more) const {
  Json tree = parse_toml(kUsual, "chaos");
  for (const auto* list : {&settings_.experiment, &more}) {
    for (const std::string& text : *list) {
      const Override change = parse_override(text);
      set_by_path(tree, change.key, parse_toml_value(change.value));
    }
  }
  return parse_experiment(tree, stage_.registry);
}

void Federation::begin_to_serve(const Launch& how) {
  const auto set = [](const std::string& key, const std::string& value) {
    return fmt::format("serve.{}=\"{}\"", key, value);
  };
  std::vector<std::string> words{"serve",    (folder_ / "dealt" / "federation.toml").string(),
                                 "--out",    run().string(),
                                 "--port",   std::to_string(port_),
                                 "--lanes",  "1",
                                 "--device", "cpu"};
  std::vector<std::string> sets{
      set("host", settings_.host), set("authority", (stage_.pki() / "authority.pem").string()),
      set("certificate", (stage_.pki() / (settings_.server + ".pem")).string()),
      set("key", (stage_.pki() / (settings_.server + ".key")).string())};
  for (const std::string& own : settings_.serve) {
    sets.push_back("serve." + own);
  }
  for (const std::string& each : sets) {
    words.emplace_back("--set");
    words.push_back(each);
  }
  server_.reset();
  server_ = std::make_unique<Process>(words, folder_ / fmt::format("server-{}.log", ++starts_),
                                      stage_.stop, how);
}

void Federation::serve(const Launch& how) {
  begin_to_serve(how);
  server_->await_words("\ncharter ", kLongestStart);
  const std::string said = server_->said();
  const std::size_t begin = said.find("\ncharter ") + 9;
  charter_ = said.substr(begin, said.find('\n', begin) - begin);
}

fs::path Federation::state_of(std::int64_t client) const {
  return folder_ / "states" / member_name(client);
}

fs::path Federation::data_of(std::int64_t client) const {
  return folder_ / "dealt" / (member_name(client) + ".npz");
}

void Federation::swarm(const std::vector<std::int64_t>& clients, const Launch& how) {
  const std::string name = fmt::format("swarm-{}", swarms_.size() + 1);
  const fs::path data = folder_ / name;
  fs::create_directory(data);
  for (const std::int64_t client : clients) {
    fs::copy_file(data_of(client), data / (member_name(client) + ".npz"));
  }
  const std::vector<std::string> words{"swarm",
                                       "--data",
                                       data.string(),
                                       "--certificates",
                                       stage_.pki().string(),
                                       "--server",
                                       fmt::format("{}:{}", settings_.host, port_),
                                       "--state",
                                       (folder_ / (name + "-states")).string(),
                                       "--agree",
                                       charter_,
                                       "--lanes",
                                       "1",
                                       "--device",
                                       "cpu"};
  swarms_.push_back(std::make_unique<Process>(words, folder_ / (name + ".log"), stage_.stop, how));
}

std::unique_ptr<Process> Federation::join(std::int64_t client, std::uint16_t port,
                                          const Launch& how, bool agrees) {
  const std::string name = member_name(client);
  fs::create_directories(folder_ / "states");
  std::vector<std::string> words{"join",
                                 "--data",
                                 data_of(client).string(),
                                 "--server",
                                 fmt::format("{}:{}", settings_.host, port == 0 ? port_ : port),
                                 "--certificate",
                                 (stage_.pki() / (name + ".pem")).string(),
                                 "--key",
                                 (stage_.pki() / (name + ".key")).string(),
                                 "--authority",
                                 (stage_.pki() / "authority.pem").string(),
                                 "--state",
                                 state_of(client).string(),
                                 "--lanes",
                                 "1",
                                 "--device",
                                 "cpu"};
  if (agrees) {
    words.insert(words.end(), {"--agree", charter_});
  }
  return std::make_unique<Process>(words, folder_ / fmt::format("{}-{}.log", name, ++joins_),
                                   stage_.stop, how);
}

std::int64_t Federation::rounds() const {
  const std::vector<Json> events = lines_of(run() / kEventsFile);
  return std::ranges::count_if(
      events, [](const Json& event) { return event.value("event", "") == "round"; });
}

void Federation::await_rounds(std::int64_t count, double seconds) {
  await([&] { return rounds() >= count; }, seconds, fmt::format("round {}", count), stage_.stop);
}

std::vector<Json> Federation::heard(const std::string& event) const {
  std::vector<Json> found = lines_of(run() / kNetworkFile);
  std::erase_if(found, [&](const Json& line) { return line.value("event", "") != event; });
  return found;
}

bool Federation::refused_with(const std::string& reason) const {
  return std::ranges::any_of(heard("refusal"),
                             [&](const Json& line) { return line.value("reason", "") == reason; });
}

void Federation::finish(double seconds) {
  const int code = server_->wait(seconds);
  require(code == 0, fmt::format("the server ended with {}", code));
}

Json Federation::summary() const {
  Json summary = read_summary(run());
  require(summary.is_object(), "the run has no summary");
  return summary;
}

Json Federation::simulation(const fs::path& absences) const {
  std::vector<std::string> more;
  if (!absences.empty()) {
    more.push_back(fmt::format("federation.absences=\"{}\"", absences.string()));
  }
  Session session(experiment(more), stage_.registry, Runtime{.lanes = 1, .device = "cpu"},
                  stage_.stop);
  while (session.rounds_done() < session.rounds()) {
    session.play();
  }
  return make_summary(session);
}

std::string Federation::simulated(const fs::path& absences) const {
  return simulation(absences).at("model_hash");
}

// The journal forgets orders that are settled; what it counts of them are the rounds of every
// member in which a reply of its was accepted.
std::int64_t Federation::accepted() const {
  net::Database journal(run() / kJournalFile);
  net::Statement row = journal.statement("SELECT SUM(rounds) FROM member");
  require(row.step(), "the journal has no members");
  return row.number(0);
}

std::string Federation::same_model() const {
  const Json result = summary();
  const std::string hash = result.at("model_hash").get<std::string>();
  const Absences absences = read_absences((run() / kEventsFile).string(), kMembers);
  require(absences.empty(), fmt::format("{} absences", absences.size()));
  const Json simulated = simulation();
  const std::int64_t due = simulated.at("participations").get<std::int64_t>();
  const std::int64_t counted = result.at("participations").get<std::int64_t>();
  require(counted == due, fmt::format("{} replies counted instead of {}", counted, due));
  const std::int64_t journalled = accepted();
  require(journalled == due,
          fmt::format("{} accepted replies in the journal instead of {}", journalled, due));
  const std::string expected = simulated.at("model_hash").get<std::string>();
  require(hash == expected,
          fmt::format("model {} instead of {}", hash.substr(0, 12), expected.substr(0, 12)));
  return "same model";
}

std::string Federation::same_absences(std::int64_t fewest) const {
  const fs::path events = run() / kEventsFile;
  const Absences absences = read_absences(events.string(), kMembers);
  require(std::ssize(absences) >= fewest, fmt::format("{} absences", absences.size()));
  const std::string hash = summary().at("model_hash").get<std::string>();
  const std::string expected = simulated(events);
  require(hash == expected,
          fmt::format("model {} instead of {} with {} absences", hash.substr(0, 12),
                      expected.substr(0, 12), absences.size()));
  return fmt::format("{} {}, same model", absences.size(),
                     absences.size() == 1 ? "absence" : "absences");
}

}  // namespace winnow::chaos

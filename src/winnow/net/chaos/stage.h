// What the rows play on: small federations of four members on this machine, with everything that
// belongs to them, and the simulation that says in which model each has to end.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "winnow/base/json.h"
#include "winnow/experiment/experiment.h"
#include "winnow/net/chaos/process.h"
#include "winnow/net/pki/authority.h"

namespace winnow::chaos {

inline constexpr std::int64_t kMembers = 4;
inline constexpr std::int64_t kTarget = 3;  // the member to which things happen
// The others.
inline std::vector<std::int64_t> honest() {
  return {0, 1, 2};
}
// The method of rows in which what members remember matters too: SCAFFOLD's members have a control
// that must be what the server thinks it is.
inline constexpr const char* kWithMemory = "method.name=\"scaffold\"";
inline constexpr const char* kHere = "127.0.0.1";
inline constexpr const char* kFarSide = "10.77.0.1";  // the server in a network of its own

// What all rows share.
struct Stage {
  // Everything is written into the folder, which must be there.
  Stage(const Registry& its_registry, std::filesystem::path its_folder, std::uint64_t its_seed,
        const std::atomic<bool>* its_stop);

  std::filesystem::path pki() const { return folder / "pki"; }
  std::filesystem::path revoked() const { return folder / "authority" / "revoked.txt"; }
  Credentials credentials(const std::string& name) const;

  const Registry& registry;
  std::filesystem::path folder;
  std::uint64_t seed;
  const std::atomic<bool>* stop;
  Authority authority;
};

struct Settings {
  std::vector<std::string> experiment = {};  // KEY=VALUE beyond the usual small one
  std::vector<std::string> serve = {};       // KEY=VALUE of [serve]
  std::string host = kHere;                  // where members look for the server
  std::string server = "server";             // which certificate it has
};

// One federation: a server process, which may die and be started again, and its members.
class Federation {
 public:
  // Deals the data out; the folder is made.
  Federation(const Stage& stage, const std::filesystem::path& folder, Settings settings = {});

  // Starts the server and waits until it listens.
  void serve(const Launch& how = {});
  // Starts it where it is expected to die or to refuse.
  void begin_to_serve(const Launch& how = {});
  Process& server() { return *server_; }

  // Members that do their part: all in one process, or one in a process of its own.
  void swarm(const std::vector<std::int64_t>& clients, const Launch& how = {});
  std::unique_ptr<Process> join(std::int64_t client, std::uint16_t port = 0, const Launch& how = {},
                                bool agrees = true);
  std::filesystem::path state_of(std::int64_t client) const;
  std::filesystem::path data_of(std::int64_t client) const;

  std::uint16_t port() const { return port_; }
  const std::string& host() const { return settings_.host; }
  const std::string& charter() const { return charter_; }  // its hash
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path run() const { return folder_ / "served"; }
  const Stage& stage() const { return stage_; }

  // Rounds in its log.
  std::int64_t rounds() const;
  void await_rounds(std::int64_t count, double seconds = 120);
  // What network.jsonl says of such an event.
  std::vector<Json> heard(const std::string& event) const;
  bool refused_with(const std::string& reason) const;

  // Waits for the server's end, which must be a good one.
  void finish(double seconds = 180);
  // Both expect that it has finished. The model must be the simulation's, with as many replies
  // counted, in the summary and in the journal, as the simulation has participations, and nobody
  // absent; or that of the simulation in which the same members were absent from
  // the same rounds, at least `fewest` times. Throw Failed; the text is for the table.
  std::string same_model() const;
  std::string same_absences(std::int64_t fewest = 1) const;
  // The hash of the simulation's model, with the absences of a file.
  std::string simulated(const std::filesystem::path& absences = {}) const;
  Json summary() const;

 private:
  Experiment experiment(const std::vector<std::string>& more = {}) const;
  // The simulation's summary.
  Json simulation(const std::filesystem::path& absences = {}) const;
  // Replies that the journal has counted as accepted.
  std::int64_t accepted() const;

  const Stage& stage_;
  std::filesystem::path folder_;
  Settings settings_;
  std::uint16_t port_;
  std::string charter_;
  int starts_ = 0;
  std::unique_ptr<Process> server_;
  std::vector<std::unique_ptr<Process>> swarms_;
  int joins_ = 0;
};

}  // namespace winnow::chaos

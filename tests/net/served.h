// What the tests over a real network share: a federation of an experiment in one process, with its
// server and all members over TLS on loopback.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "run/small_run.h"
#include "winnow/net/join/take_part.h"
#include "winnow/net/pki/authority.h"
#include "winnow/net/serve/serving.h"
#include "winnow/run/deal.h"
#include "winnow/run/summary.h"

namespace winnow {

// An authority with certificates for a server and as many members as were ever asked for; made once
// for all tests of a process.
class Passports {
 public:
  static Passports& all() {
    static Passports passports;
    return passports;
  }

  const Credentials& of_member(std::int64_t client) {
    const std::string name = member_name(client);
    const auto found = members_.find(name);
    return found != members_.end()
               ? found->second
               : members_.emplace(name, authority_.issue_client(name)).first->second;
  }

  void write_server(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    write_file_whole(folder / "server.pem", server_.certificate);
    write_secret(folder / "server.key", server_.key);
    write_file_whole(folder / "authority.pem", server_.authority);
  }

  Passports(const Passports&) = delete;
  Passports& operator=(const Passports&) = delete;

 private:
  Passports()
      : folder_(std::filesystem::temp_directory_path() /
                ("winnow_passports_" + std::to_string(::getpid()))),
        authority_(Authority::create(folder_, "test")),
        server_(authority_.issue_server({"localhost"})) {}
  ~Passports() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::filesystem::path folder_;
  Authority authority_;
  Credentials server_;
  std::map<std::string, Credentials> members_;
};

struct Serve {
  Registry registry = methods();          // of the server
  Registry members_registry = methods();  // of the members
  std::vector<Override> settings = {};    // serve.KEY and its value
  bool one_connection_each = false;       // every member a call of take_part() of its own
  int stops_after = 0;                    // replies; the server is then started again
};

inline member::PartOptions part_options(std::uint16_t port, const std::string& charter) {
  member::PartOptions options;
  options.server = {"localhost", port};
  options.agree = charter;
  options.runtime = on_cpu(1);
  return options;
}

// All members take part; they are waited for by way of what is returned.
inline std::vector<std::future<member::Outcome>> send_members(const std::filesystem::path& place,
                                                              std::int64_t count,
                                                              std::uint16_t port,
                                                              const std::string& charter,
                                                              const Serve& how) {
  std::vector<std::vector<member::Recruit>> groups;
  for (std::int64_t client = 0; client < count; ++client) {
    const std::string name = member_name(client);
    if (groups.empty() || how.one_connection_each) {
      groups.emplace_back();
    }
    groups.back().push_back({name, Passports::all().of_member(client), place / (name + ".npz"),
                             place / ("state-" + name)});
  }
  std::vector<std::future<member::Outcome>> members;
  for (const std::vector<member::Recruit>& group : groups) {
    members.push_back(std::async(std::launch::async, [&how, group, port, charter] {
      return member::take_part(group, how.members_registry, part_options(port, charter));
    }));
  }
  return members;
}

// Deals the experiment out and plays it as a federation; its run is in PLACE/run. Expects that all
// members are there to the end.
inline RunOutcome served(const Experiment& experiment, const std::filesystem::path& place,
                         const Serve& how) {
  deal_out(experiment, how.registry, place);
  Passports::all().write_server(place / "pki");
  const auto file_with = [&](std::uint16_t port) {
    std::vector<Override> settings{{"serve.port", std::to_string(port)},
                                   {"serve.samples_at_most", "1000"}};
    settings.insert(settings.end(), how.settings.begin(), how.settings.end());
    return net::load_serve_file(place / "federation.toml", settings);
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
  bool listens = false;
  call.listening = [&](std::uint16_t listening, std::uint16_t) {
    listens = true;
    port.set_value(listening);
  };
  call.fail = [&](std::string_view point) {
    stop = stop || (point == net::kAfterVerdict && ++replies == how.stops_after);
  };
  std::future<RunOutcome> outcome = std::async(std::launch::async, [&] {
    try {
      return net::serve(file_with(0), how.registry, call);
    } catch (...) {
      if (!listens) {
        port.set_exception(std::current_exception());
      }
      throw;
    }
  });
  const std::uint16_t at = port.get_future().get();
  const std::int64_t clients = experiment.federation.clients;
  std::vector<std::future<member::Outcome>> members =
      send_members(place, clients, at, charter, how);
  RunOutcome done = outcome.get();
  if (how.stops_after > 0) {
    EXPECT_TRUE(done.interrupted);
    stop = false;
    call.fail = {};
    call.listening = {};
    call.say = {};
    done = net::serve(file_with(at), how.registry, call);
  }
  std::size_t finished = 0;
  for (std::future<member::Outcome>& one : members) {
    finished += one.get().finished;
  }
  EXPECT_EQ(finished, static_cast<std::size_t>(clients));
  return done;
}

inline std::string served_hash(const Experiment& experiment, const std::filesystem::path& place,
                               const Serve& how) {
  return served(experiment, place, how).summary.at("model_hash");
}

// What the simulation of the same experiment ends with.
inline Json simulated(const Experiment& experiment, const Registry& registry) {
  Session session(experiment, registry, on_cpu(), nullptr);
  while (session.rounds_done() < session.rounds()) {
    session.play();
  }
  return make_summary(session);
}

}  // namespace winnow

// The files of a federation that anybody with a certificate may join, to be served in the test's
// own process over TLS.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "run/small_run.h"
#include "winnow/net/join/take_part.h"
#include "winnow/net/pki/authority.h"
#include "winnow/net/serve/serving.h"
#include "winnow/run/deal.h"

namespace winnow::net {

inline constexpr const char* kHost = "127.0.0.1";

// Four members, and what their server has said.
struct OpenFederation {
  explicit OpenFederation(const std::vector<std::string>& sets = {},
                          Registry its_registry = methods())
      : registry(std::move(its_registry)) {
    std::vector<std::string> all{"rounds=2", "federation.fraction=1.0"};
    all.insert(all.end(), sets.begin(), sets.end());
    experiment = parse_experiment(small_tree(all), registry);
    deal_out(experiment, registry, folder / "dealt");
    const Credentials server = authority.issue_server({kHost});
    std::filesystem::create_directories(folder / "dealt/pki");
    write_file_whole(folder / "dealt/pki/server.pem", server.certificate);
    write_secret(folder / "dealt/pki/server.key", server.key);
    write_file_whole(folder / "dealt/pki/authority.pem", server.authority);
    tree = read_toml(folder / "dealt/federation.toml");
    anchor_paths(tree, folder / "dealt");
    tree.erase("members");
    tree["federation"]["clients"] = 4;
    tree["serve"]["enrol"] = "open";
    tree["serve"]["host"] = kHost;
    tree["serve"]["port"] = 0;
    call.directory = folder / "run";
    call.runtime = on_cpu(1);
    call.stop = &stop;
    call.say = [this](const std::string& line) {
      const std::lock_guard lock(mutex);
      said.push_back(line);
    };
  }

  RunOutcome serve_it() { return serve(read_serve_tree(tree, folder / "dealt"), registry, call); }
  std::string said_after(const std::string& start) {
    const std::lock_guard lock(mutex);
    const auto line = std::ranges::find_if(
        said, [&](const std::string& each) { return each.starts_with(start); });
    return line == said.end() ? "nothing" : line->substr(start.size());
  }
  // Member K with what was dealt to it.
  member::Recruit recruit(std::int64_t client) {
    const std::string name = member_name(client);
    return {name, authority.issue_client(name), folder / ("dealt/" + name + ".npz"),
            folder / ("states/" + name)};
  }

  TestFolder folder;
  Registry registry;
  Experiment experiment;
  Authority authority = Authority::create(folder / "authority", "Open");
  Json tree;
  ServeCall call;
  std::atomic<bool> stop = false;
  std::mutex mutex;
  std::vector<std::string> said;
};

// Has the server end when a test ends early.
struct Stopper {
  std::atomic<bool>& stop;
  ~Stopper() { stop = true; }
};

}  // namespace winnow::net

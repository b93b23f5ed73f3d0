// What `winnow join` and `winnow swarm` have in common on the command line.
#pragma once

#include <string>
#include <vector>

#include "winnow/cli/command.h"
#include "winnow/net/join/take_part.h"

namespace winnow::member {

struct PartFlags {
  std::string server;
  std::string state;
  std::string agree;
  std::string device = "auto";
  std::int64_t lanes = 0;  // 0: what the command finds fit
  bool quiet = false;

  void add_to(CLI::App& command);
  // With signals that stop it, and somebody to ask where there is a terminal.
  PartOptions options(const ServerAddress& address, std::int64_t usual_lanes) const;
};

// Takes part, prints how it ended and sets the exit code.
void conclude_part(const PartFlags& flags, std::vector<Recruit> recruits,
                   const PartOptions& options, Program& program);

}  // namespace winnow::member

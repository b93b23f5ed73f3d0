#include "winnow/cli/far_commands.h"

#include <algorithm>
#include <array>

#include "winnow/cli/sibling.h"

namespace winnow {
namespace {

struct FarCommand {
  const char* name;
  const char* summary;
};

constexpr std::array<FarCommand, 5> kFar{
    {{"pki", "create and check the certificates of a federation"},
     {"serve", "run the server of a federation whose members have their own data"},
     {"join", "take part in a federation with data on this machine"},
     {"swarm", "take part as many members at once, in one process"},
     {"chaos", "inject 25 faults into small federations and check how each one ends"}}};

constexpr const char* kNetProgram = "winnow-net";

// Only names are known here of the commands that another program has.
constexpr const char* kElsewhere =
    "Its options are those of the program winnow-net, which comes with the package winnow-net.";

}  // namespace

void add_far_commands(CLI::App& app) {
  for (const FarCommand& far : kFar) {
    const auto has_its_name = [&](const CLI::App* known) { return known->get_name() == far.name; };
    if (app.get_subcommands(has_its_name).empty()) {
      app.add_subcommand(far.name, far.summary)->footer(kElsewhere);
    }
  }
}

bool is_far(const std::string& command, const Commands& commands) {
  return commands.empty() &&
         std::ranges::any_of(kFar, [&](const FarCommand& far) { return far.name == command; });
}

void become_net_program(const Program& program) {
  become(program, kNetProgram, std::string("winnow ") + program.argv[1],
         "install the package winnow-net, or what ./scripts/setup --net lists, and build with "
         "-DWINNOW_NET=ON");
}

void let_net_program_tell(const CLI::App& app, const Program& program) {
  const auto is_only_a_name = [](const CLI::App* known) {
    return known->get_footer() == kElsewhere;
  };
  if (!app.get_subcommands(is_only_a_name).empty() && has_sibling(kNetProgram)) {
    become(program, kNetProgram, "winnow", "");
  }
}

}  // namespace winnow

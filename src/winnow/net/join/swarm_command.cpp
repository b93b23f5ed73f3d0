// `winnow swarm`.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "winnow/base/error.h"
#include "winnow/net/join/commands.h"
#include "winnow/net/join/part_flags.h"
#include "winnow/net/pki/identity.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

struct SwarmFlags {
  std::string data;
  std::string certificates;
  member::PartFlags part;
};

// One for every NAME.npz of a folder that has a certificate NAME.pem; "server" is none.
std::vector<member::Recruit> recruits_in(const SwarmFlags& flags) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(flags.data, failed)) {
    const fs::path& file = entry.path();
    if (file.extension() == ".npz" && file.stem() != "server" &&
        is_member_name(file.stem().string())) {
      names.push_back(file.stem().string());
    }
  }
  if (failed) {
    throw Error(ErrorKind::data, fmt::format("--data {}: {}", flags.data, failed.message()));
  }
  if (names.empty()) {
    throw Error(ErrorKind::data, fmt::format("--data {}: no NAME.npz in this folder", flags.data),
                "winnow deal makes such files");
  }
  std::ranges::sort(names);
  const fs::path pki = flags.certificates;
  std::vector<member::Recruit> recruits;
  for (const std::string& name : names) {
    recruits.push_back(
        {name,
         read_credentials(pki / (name + ".pem"), pki / (name + ".key"), pki / "authority.pem"),
         fs::path(flags.data) / (name + ".npz"), fs::path(flags.part.state) / name});
  }
  return recruits;
}

}  // namespace

void add_swarm_command(CLI::App& app, Program& program) {
  auto flags = std::make_shared<SwarmFlags>();
  CLI::App* command =
      app.add_subcommand("swarm", "take part as many members at once, in one process");
  command
      ->add_option("--data", flags->data,
                   "folder with NAME.npz for every member, as 'winnow deal' writes them")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("--certificates", flags->certificates,
                   "folder with NAME.pem and NAME.key for every member, and authority.pem")
      ->type_name("DIR")
      ->required();
  flags->part.add_to(*command);
  command->footer(
      "Example:  winnow swarm --data federation --certificates federation/pki --server\n"
      "          localhost:8790 --state states --agree HASH --lanes 2");
  command->callback([flags, &program] {
    if (flags->part.state.empty()) {
      throw Error(ErrorKind::usage, "--state is required");
    }
    const member::ServerAddress server = member::parse_address(flags->part.server);
    member::conclude_part(flags->part, recruits_in(*flags), flags->part.options(server, 0),
                          program);
  });
}

}  // namespace winnow

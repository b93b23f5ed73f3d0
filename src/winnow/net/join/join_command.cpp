// `winnow join`.
#include <fmt/format.h>

#include "winnow/base/error.h"
#include "winnow/net/join/commands.h"
#include "winnow/net/join/part_flags.h"

namespace winnow {
namespace {

struct JoinFlags {
  std::string data;
  std::string certificate;
  std::string key;
  std::string authority;
  bool check = false;
  bool leave = false;
  member::PartFlags part;
};

int check_connection(const member::ServerAddress& server, const Credentials& credentials) {
  const Diagnosis diagnosis = member::check_server(server, credentials);
  fmt::print("{}\n", printable(diagnosis.sentence));
  if (!diagnosis.hint.empty()) {
    fmt::print("  {}\n", printable(diagnosis.hint));
  }
  return diagnosis.fine ? 0 : exit_code(ErrorKind::peer);
}

void join_federation(const JoinFlags& flags, Program& program) {
  const member::ServerAddress server = member::parse_address(flags.part.server);
  const Credentials credentials = read_credentials(flags.certificate, flags.key, flags.authority);
  if (flags.check) {
    program.exit_code = check_connection(server, credentials);
    return;
  }
  if (flags.part.state.empty() || (flags.data.empty() && !flags.leave)) {
    throw Error(ErrorKind::usage, "--data and --state are required",
                "only --check works without them");
  }
  member::Recruit recruit{read_certificate(credentials.certificate).name, credentials, flags.data,
                          flags.part.state};
  const member::PartOptions options = flags.part.options(server, /*usual_lanes=*/1);
  if (flags.leave) {
    member::leave_federation(recruit, options);
    fmt::print("{} no longer takes part\n", recruit.name);
    return;
  }
  member::conclude_part(flags.part, {std::move(recruit)}, options, program);
}

}  // namespace

void add_join_command(CLI::App& app, Program& program) {
  auto flags = std::make_shared<JoinFlags>();
  CLI::App* command =
      app.add_subcommand("join", "take part in a federation with data on this machine");
  command
      ->add_option("--data", flags->data,
                   "this member's samples: a folder with a folder of images per class, a list of "
                   "images, or an .npz file with images and labels")
      ->type_name("PATH");
  command->add_option("--certificate", flags->certificate, "certificate of this member")
      ->type_name("FILE")
      ->required();
  command->add_option("--key", flags->key, "private key of this certificate")
      ->type_name("FILE")
      ->required();
  command->add_option("--authority", flags->authority, "certificate of the federation's authority")
      ->type_name("FILE")
      ->required();
  flags->part.add_to(*command);
  command->add_flag("--check", flags->check,
                    "only check whether the server can be reached, and say what is wrong if not");
  command->add_flag("--leave", flags->leave,
                    "tell the server that this member no longer takes part");
  command->footer(
      "Example:  winnow join --data scans --server fl.example.org:8790 --certificate\n"
      "          hospital-a.pem --key hospital-a.key --authority authority.pem --state state");
  command->callback([flags, &program] { join_federation(*flags, program); });
}

}  // namespace winnow

// `winnow deal`: a simulated federation as the files of a real one.
#include <fmt/format.h>

#include "winnow/cli/command.h"
#include "winnow/run/deal.h"

namespace winnow {

void add_deal_command(CLI::App& app, Program& program) {
  struct Flags {
    std::string file;
    std::string out;
    std::string authority;
    OverrideFlags overrides;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "deal", "write the server's and members' files of a real federation from a simulated one");
  command->add_option("FILE", flags->file, "experiment file (TOML)")->required();
  command->add_option("-o,--out", flags->out, "folder for the files")->type_name("DIR")->required();
  command
      ->add_option(
          "--authority", flags->authority,
          "folder made by 'winnow pki init', in which the server looks for revoked certificates")
      ->type_name("DIR");
  flags->overrides.add_to(*command);
  command->footer("Example:  winnow deal experiments/synthetic.toml --out federation");
  command->callback([flags, &program] {
    const Experiment experiment =
        load_experiment(flags->file, flags->overrides.overrides(), program.registry);
    const Dealt dealt = deal_out(experiment, program.registry, flags->out, flags->authority);
    fmt::print("{} members have their data in {}\nserve them with: winnow serve {}\n",
               dealt.members, flags->out, dealt.file.string());
  });
}

}  // namespace winnow

// `winnow arena`.
#include "winnow/report/arena.h"

#include <fmt/format.h>

#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/sweep/arena_results.h"

namespace winnow {

void add_arena_command(CLI::App& app, Program& program) {
  struct Flags {
    std::string source;
    std::string results;
    std::string svg;
    ArenaLook look;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("arena", "rank methods over many settings and show which wins where");
  command->add_option("SOURCE", flags->source, "sweep directory, sweep file or results file (.csv)")
      ->required();
  command
      ->add_option(
          "--results", flags->results,
          "read the results from this file (made with table --format runs); SOURCE is then "
          "the sweep file")
      ->type_name("FILE");
  command->add_option("-f,--format", flags->look.format, join(arena_formats(), ", "))
      ->type_name("NAME")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "the same as --format json");
  command->add_flag("--by-setting", flags->look.by_setting,
                    "print what every method gains or loses in every setting");
  command
      ->add_option("--svg", flags->svg,
                   "also draw a picture of methods against settings into this file")
      ->type_name("FILE");
  command->footer(
      "The sweep file needs an [arena] table; docs/arena.md explains the ranking.\n"
      "Example:  winnow arena runs/arena-tiny --svg arena.svg");
  command->callback([flags, &program] {
    if (flags->json) {
      flags->look.format = "json";
    }
    const Arena arena = load_arena(flags->source, flags->results, program.registry);
    const std::string text = render_arena(arena, flags->look);
    if (!flags->svg.empty()) {
      write_file_whole(flags->svg, arena_svg(arena_json(arena)));
      tell(fmt::format("{}: {} methods against {} settings\n", flags->svg, arena.rows.size(),
                       arena.settings.size()));
    }
    fmt::print("{}", text);
  });
}

}  // namespace winnow

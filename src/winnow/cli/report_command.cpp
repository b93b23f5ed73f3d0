// `winnow report`.
#include <fmt/format.h>

#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/report/page.h"
#include "winnow/run/report_data.h"

namespace winnow {

void add_report_command(CLI::App& app, Program& /*program*/) {
  struct Flags {
    std::vector<std::string> directories;
    std::string out = "report.html";
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("report", "write one page with everything about runs");
  command->add_option("DIR", flags->directories, "run or sweep directories")->required();
  command->add_option("-o,--out", flags->out, "the page to write")->capture_default_str();
  command->add_flag("--json", flags->json, "print the page's data as JSON instead");
  command->footer("Example:  winnow report runs/quickstart -o report.html");
  command->callback([flags] {
    const Json data = ReportReader(flags->directories).read();
    if (flags->json) {
      fmt::print("{}\n", data.dump(-1, ' ', false, Json::error_handler_t::replace));
      return;
    }
    const std::string page = render_page(data);
    write_file_whole(flags->out, page);
    tell(fmt::format("{} ({}) shows runs: {}\n", flags->out,
                     human_bytes(static_cast<double>(page.size())), data.at("runs").size()));
  });
}

}  // namespace winnow

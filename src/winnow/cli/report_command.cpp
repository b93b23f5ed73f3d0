// `winnow report`.
#include <fmt/format.h>

#include <filesystem>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/experiment/changed_settings.h"
#include "winnow/report/figures.h"
#include "winnow/report/page.h"
#include "winnow/sweep/group_images.h"
#include "winnow/sweep/report_data.h"

namespace winnow {

namespace {

namespace fs = std::filesystem;

void write_pictures_of(const Json& report, const fs::path& folder) {
  const std::vector<ReportFile> files = report_files(report);
  for (const ReportFile& file : files) {
    const fs::path path = folder / file.name;
    std::error_code failed;
    fs::create_directories(path.parent_path(), failed);
    if (failed) {
      throw Error(ErrorKind::run, fmt::format("cannot create {}: {}", path.parent_path().string(),
                                              failed.message()));
    }
    write_file_whole(path, file.content);
  }
  tell(fmt::format("{}: pictures and curves.csv, {} files\n", folder.string(), files.size()));
}

}  // namespace

void add_report_command(CLI::App& app, Program& program) {
  struct Flags {
    std::vector<std::string> directories;
    std::string out = "report.html";
    std::string svg;
    bool images = false;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("report", "write a page with all results of runs and sweeps");
  command->add_option("DIR", flags->directories, "run or sweep directories")->required();
  command->add_option("-o,--out", flags->out, "the page to write")
      ->type_name("FILE")
      ->capture_default_str();
  command
      ->add_option("--svg", flags->svg,
                   "also write every picture as an SVG file and the curves as CSV into this folder")
      ->type_name("DIR");
  command->add_flag("--images", flags->images,
                    "load the data again and show images of flagged clients and of others");
  command->add_flag("--json", flags->json, "print the page's data as JSON instead");
  command->footer("Example:  winnow report runs/quickstart -o report.html --svg pictures");
  command->callback([flags, &program] {
    Json data = ReportReader(flags->directories, program.registry).read();
    add_changed_settings(data, program.registry);
    if (flags->images) {
      add_group_images(data, program.registry);
    }
    if (!flags->svg.empty()) {
      write_pictures_of(data, flags->svg);
    }
    if (flags->json) {
      fmt::print("{}\n", data.dump(-1, ' ', false, Json::error_handler_t::replace));
      return;
    }
    const std::string page = render_page(data);
    write_file_whole(flags->out, page);
    const std::size_t runs = data.at("runs").size();
    tell(fmt::format("{} ({}) shows {} run{}\n", flags->out,
                     human_bytes(static_cast<double>(page.size())), runs, runs == 1 ? "" : "s"));
  });
}

}  // namespace winnow

// `winnow watch`.
#include <fmt/format.h>

#include <cstdio>

#include "winnow/cli/command.h"
#include "winnow/cli/signals.h"
#include "winnow/experiment/changed_settings.h"
#include "winnow/report/page.h"
#include "winnow/report/page_server.h"
#include "winnow/sweep/report_data.h"

namespace winnow {
namespace {

constexpr int kDefaultPort = 8780;

PageAnswer answer(ReportReader& reader, const Registry& registry, const std::string& path,
                  const std::string& etag) {
  if (path != "/" && path != "/data.json") {
    return {};
  }
  std::string stamp = reader.stamp();
  if (path == "/data.json" && stamp == etag) {
    return {"application/json", "", std::move(stamp)};
  }
  Json data = reader.read();
  add_changed_settings(data, registry);
  if (path == "/") {
    data["live"] = stamp;  // what the page asks for news of
    return {"text/html", render_page(data), ""};
  }
  std::string body = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  return {"application/json", std::move(body), std::move(stamp)};
}

}  // namespace

void add_watch_command(CLI::App& app, Program& program) {
  struct Flags {
    std::vector<std::string> directories;
    int port = kDefaultPort;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "watch", "serve the report page on this machine, updated while runs are in progress");
  command->add_option("DIR", flags->directories, "run or sweep directories")->required();
  command->add_option("-p,--port", flags->port, "port on 127.0.0.1; 0: any free port")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->footer("Example:  winnow watch runs/quickstart");
  command->callback([flags, &program] {
    ReportReader reader(flags->directories, program.registry);
    reader.read();  // what cannot be shown is said here, not in the browser
    PageServer server(static_cast<std::uint16_t>(flags->port),
                      [&](const std::string& path, const std::string& etag) {
                        return answer(reader, program.registry, path, etag);
                      });
    const std::atomic<bool>& stop = stop_on_signals();
    fmt::print("http://127.0.0.1:{}/  (Ctrl-C to stop)\n", server.port());
    std::fflush(stdout);
    server.serve(stop);
  });
}

}  // namespace winnow

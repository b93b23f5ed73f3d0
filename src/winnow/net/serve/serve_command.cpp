// `winnow serve`.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/cli/arithmetic_choice.h"
#include "winnow/cli/console.h"
#include "winnow/cli/progress.h"
#include "winnow/cli/signals.h"
#include "winnow/net/serve/commands.h"
#include "winnow/net/serve/serving.h"
#include "winnow/run/run_directory.h"

namespace winnow {
namespace {

struct ServeFlags {
  std::string file;
  std::string out;
  int port = -1;
  int metrics_port = -1;
  bool force = false;
  bool json = false;
  RuntimeFlags runtime;
  OverrideFlags overrides;
};

std::string share_or_dash(const Json& share) {
  return share.is_number() ? percent_text(share.get<double>()) : "-";
}

void print_end(const Json& summary, const std::filesystem::path& directory) {
  fmt::print("{}\n", bold(fmt::format("{}: {}, seed {}", summary.at("name").get<std::string>(),
                                      summary.at("method").get<std::string>(),
                                      summary.at("seed").get<std::uint64_t>()),
                          use_colour()));
  const double bytes =
      summary.at("bytes_up").get<double>() + summary.at("bytes_down").get<double>();
  fmt::print("{}",
             columns({{"  best", share_or_dash(summary.at("best"))},
                      {"  last", share_or_dash(summary.at("last"))},
                      {"  participations", summary.at("participations").dump()},
                      {"  traffic", human_bytes(bytes)},
                      {"  wall time", human_seconds(summary.at("wall_seconds").get<double>())},
                      {"  model", summary.at("model_hash").get<std::string>().substr(0, 16)},
                      {"  directory", directory.string()}},
                     200));
}

// Every connection takes a descriptor, also that of a stranger. Where they run out, gRPC 1.51 never
// takes another connection; many systems let a program begin with 1,024 and ask for more.
void allow_many_connections() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// A server trains nothing. What it frees, models and pieces of them above all, goes back to the
// system, unlike what a simulation frees in every step (cli.cpp).
void give_freed_memory_back() {
  ::mallopt(M_MMAP_THRESHOLD, 512 << 10);
  ::mallopt(M_TRIM_THRESHOLD, 4 << 20);
  ::mallopt(M_ARENA_MAX, 2);  // with one for every thread, each keeps what was freed in it
}

void run_serve(ServeFlags& flags, Program& program) {
  net::ServeFile file = net::load_serve_file(flags.file, flags.overrides.overrides());
  if (flags.port >= 0) {
    file.options.port = flags.port;
  }
  if (flags.metrics_port >= 0) {
    file.options.metrics_port = flags.metrics_port;
  }
  const std::string name = parse_experiment(file.tree, program.registry).name;
  net::ServeCall call;
  call.directory =
      flags.out.empty() ? std::filesystem::path("runs") / name : std::filesystem::path(flags.out);
  if (!flags.force && std::filesystem::exists(call.directory / kExperimentFile)) {
    if (read_summary(call.directory).is_null()) {
      follow_arithmetic(call.directory, program);
    } else if (!flags.runtime.quiet) {
      tell(fmt::format("{} is finished; this is its result\n", call.directory.string()));
    }
  }
  const std::atomic<bool>& stop = stop_on_signals();
  Progress progress;
  RunObserver silence;
  call.runtime = flags.runtime.runtime;
  call.stop = &stop;
  call.observer = flags.runtime.quiet ? &silence : &progress;
  call.replace = flags.force && std::filesystem::exists(call.directory);
  call.fail = net::fail_point_of_environment();
  if (!flags.runtime.quiet) {
    call.say = [](const std::string& line) { tell(line + "\n"); };
  }
  allow_many_connections();
  give_freed_memory_back();
  const RunOutcome outcome = net::serve(file, program.registry, call);
  if (outcome.interrupted) {
    tell(fmt::format("stopped after round {}; continue with: winnow serve {} --out {}\n",
                     outcome.rounds_done, flags.file, call.directory.string()));
    program.exit_code = kExitInterrupted;
  } else if (flags.json) {
    fmt::print("{}\n", outcome.summary.dump(2));
  } else {
    print_end(outcome.summary, call.directory);
  }
}

}  // namespace

void add_serve_command(CLI::App& app, Program& program) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app.add_subcommand(
      "serve", "run the server of a federation whose members have their own data");
  command->add_option("FILE", flags->file, "experiment file with [serve] and [[members]] (TOML)")
      ->required();
  command
      ->add_option("-o,--out", flags->out,
                   "run directory (default: runs/NAME); an unfinished run in it continues")
      ->type_name("DIR");
  command->add_option("-p,--port", flags->port, "the same as --set serve.port=N")
      ->type_name("N")
      ->check(CLI::Range(0, 65535));
  command
      ->add_option("--metrics-port", flags->metrics_port, "the same as --set serve.metrics_port=N")
      ->type_name("N")
      ->check(CLI::Range(0, 65535));
  command->add_flag("--force", flags->force, "replace an existing run in the run directory");
  command->add_flag("--json", flags->json, "print the summary as JSON");
  flags->runtime.add_to(*command);
  flags->overrides.add_to(*command);
  command->footer("Example:  winnow serve federation.toml --out runs/federation");
  command->callback([flags, &program] { run_serve(*flags, program); });
}

}  // namespace winnow

#include "winnow/cli/cli.h"

#include <fmt/format.h>
#include <malloc.h>
#include <torch/version.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>

#include "winnow/base/build_info.h"
#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/cli/arithmetic_choice.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/cli/engine_choice.h"
#include "winnow/cli/far_commands.h"
#include "winnow/cli/help_format.h"
#include "winnow/cli/signals.h"

namespace winnow {
namespace {

std::string version_text() {
  return fmt::format("winnow {} ({}, {})\nLibTorch {}\narithmetic: {}\nleft out of this build: {}",
                     build_info::kVersion, build_info::kCompiler, build_info::kBuildType,
                     TORCH_VERSION, arithmetic_text(), build_info::kLeftOut);
}

// Every training step takes and frees the same large blocks. Giving them back to the system each
// time costs a quarter of the 4-conv net's time (docs/performance.md).
void keep_freed_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

// The name the program was started by; the programs that `winnow` becomes keep its name.
std::string name_of_program(int argc, const char* const* argv) {
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  return name.empty() || name == "winnow-net" || name == "winnow-mpi" ? "winnow" : name;
}

int report(const std::string& message, const std::string& hint, int code) {
  const bool colour = use_colour() && stderr_is_terminal();
  tell(fmt::format("{} {}\n", red("winnow:", colour), message));
  if (!hint.empty()) {
    tell(fmt::format("  {}\n", hint));
  }
  return code;
}

// LibTorch's errors carry a stack trace; the first line is what a person can use.
std::string first_line(const char* what) {
  const std::string text = what;
  return text.substr(0, text.find('\n'));
}

// The parser would only say that a command is missing.
void check_command(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') {
    return;
  }
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(command->get_name());
  }
  if (std::ranges::count(known, argv[1]) == 0) {
    throw Error(ErrorKind::usage, fmt::format("unknown command '{}'", argv[1]),
                suggestion(argv[1], known));
  }
}

// Nobody reads standard output any more, as in `winnow list | head -1`.
bool reader_has_gone(const std::system_error& error) {
  return error.code() == std::errc::broken_pipe;
}

// LibTorch's own word for std::bad_alloc, on a CPU and on a GPU.
bool is_out_of_memory(std::string_view what) {
  return what.find("can't allocate memory") != std::string_view::npos ||
         what.find("out of memory") != std::string_view::npos;
}

int report_out_of_memory() {
  return report("out of memory", "use fewer --lanes, less data, a smaller model or a smaller batch",
                exit_code(ErrorKind::run));
}

// What was printed may still wait in a buffer, and a full disk must not go unnoticed.
void check_output() {
  if (std::fflush(stdout) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot write to file");
  }
}

// The number that the whole text is.
template <typename Number>
std::optional<Number> number_in(const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

}  // namespace

void RuntimeFlags::add_to(CLI::App& command) {
  command
      .add_option("--lanes", runtime.lanes,
                  "number of clients to train in parallel (default: one per core; on a GPU, chosen "
                  "by measuring)")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--precision", runtime.precision,
                  "number format on a GPU: fp32, tf32, bf16 or auto (tf32)")
      ->type_name("NAME");
  command.add_option("--device", runtime.device, "cpu, cuda, cuda:N or auto")
      ->type_name("NAME")
      ->capture_default_str();
  command
      .add_option("--client-memory", runtime.client_memory_mb,
                  "memory limit for what clients remember; the rest goes to a temporary folder")
      ->type_name("MB")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  command.add_flag("--wire", runtime.wire,
                   "encode every message as bytes and decode it again, as a network would");
  command.add_flag("-q,--quiet", quiet, "show no progress, only the result");
}

void RuntimeFlags::add_trust_to(CLI::App& command) {
  command.add_flag("--trust-model", runtime.trust_model,
                   "trust and execute the TorchScript file that the run's experiment names");
}

void OverrideFlags::add_to(CLI::App& command) {
  command.add_option("--set", sets, "override any key of the experiment, e.g. train.lr=0.03")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command.add_option("--seed", seed, "the same as --set seed=N")
      ->type_name("N")
      ->expected(1)
      ->check(at_least(0));
}

CLI::Validator at_least(std::int64_t least) {
  return {[least](const std::string& text) {
            const auto value = number_in<std::int64_t>(text);
            return value && *value >= least
                       ? ""
                       : fmt::format("expected a whole number, {} or more, not {}", least, text);
          },
          ""};
}

CLI::Validator above_zero() {
  return {[](const std::string& text) {
            const auto value = number_in<double>(text);
            return value && *value > 0 ? "" : fmt::format("expected more than 0, not {}", text);
          },
          ""};
}

std::vector<Override> OverrideFlags::overrides() const {
  std::vector<Override> all;
  for (const std::string& text : sets) {
    all.push_back(parse_override(text));
  }
  if (!seed.empty()) {
    all.push_back({"seed", std::to_string(seed.back())});
  }
  return all;
}

int run_program(int argc, const char* const* argv, const Registry& registry, const Engines& engines,
                const Commands& commands) {
  keep_standard_streams();
  fail_instead_of_dying();
  keep_freed_memory();
  const std::string name = name_of_program(argc, argv);
  CLI::App app("Federated learning that survives noisy clients.", name);
  app.formatter(std::make_shared<HelpFormat>());
  app.set_help_flag("-h,--help", "print this help and exit");
  app.set_version_flag("--version", version_text, "print the version and exit");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "print the help of all commands and exit");
  Program program{registry, engines, argv};
  add_run_command(app, program);
  add_resume_command(app, program);
  add_verify_command(app, program);
  add_sweep_command(app, program);
  add_table_command(app, program);
  add_arena_command(app, program);
  add_report_command(app, program);
  add_watch_command(app, program);
  add_list_command(app, program);
  add_describe_command(app, program);
  add_inspect_command(app, program);
  add_deal_command(app, program);
  add_aggregate_command(app, program);
  add_audit_command(app, program);
  add_bench_command(app, program);
  add_completion_command(app, program);
  add_manual_command(app, program);
  for (const auto& add : commands) {
    add(app, program);
  }
  add_far_commands(app);
  add_engine_option(app, program);
  add_arithmetic_option(app, program);
  // Last: every command would inherit it.
  app.footer(
      "Start here:  winnow run experiments/synthetic.toml\n"
      "Exit codes:  0 done · 1 a row of chaos failed or was skipped · 2 usage · 3 experiment · 4 "
      "data\n"
      "             5 run · 6 peer · 7 verify found a difference · 8 a run of a sweep failed\n"
      "             9 a condition of audit --fail-on holds · 70 internal · 130 interrupted");
  try {
    check_command(app, argc, argv);
    if (argc > 1 && is_far(argv[1], commands)) {
      become_net_program(program);
    }
    if (argc > 1 && std::string_view(argv[1]) == "--help-all") {
      let_net_program_tell(app, program);
    }
    app.parse(argc, const_cast<char**>(argv));
    check_output();
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    const auto given = app.get_subcommands();
    const std::string words = given.empty() ? name : name + " " + given.front()->get_name();
    return report(error.what(), fmt::format("try '{} --help'", words), exit_code(ErrorKind::usage));
  } catch (const Error& error) {
    return report(error.what(), error.hint(), exit_code(error.kind()));
  } catch (const std::bad_alloc&) {
    return report_out_of_memory();
  } catch (const std::filesystem::filesystem_error& error) {
    return report(fmt::format("{}: {}", error.path1().string(), error.code().message()), "",
                  exit_code(ErrorKind::run));
  } catch (const std::system_error& error) {
    if (reader_has_gone(error)) {
      return program.exit_code;
    }
    // fmt::print() does not know what it writes to; nothing here prints to anything else.
    const std::string_view what = error.what();
    return report(what.starts_with("cannot write to file")
                      ? fmt::format("cannot write to standard output: {}", error.code().message())
                      : std::string(what),
                  "", exit_code(ErrorKind::run));
  } catch (const std::exception& error) {
    if (is_out_of_memory(error.what())) {
      return report_out_of_memory();
    }
    return report("internal error: " + first_line(error.what()),
                  "this is a bug; please report it with the command you ran",
                  exit_code(ErrorKind::internal));
  }
  return program.exit_code;
}

}  // namespace winnow

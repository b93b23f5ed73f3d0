// What the commands share. One file per command; each adds itself to the program's parser.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "winnow/experiment/experiment.h"
#include "winnow/method/method.h"
#include "winnow/run/session.h"

namespace winnow {

// The exit code where a condition of `audit --fail-on` holds.
inline constexpr int kExitCondition = 9;

// The program while it runs one command.
struct Program {
  const Registry& registry;
  const Engines& engines;
  const char* const* argv = nullptr;
  std::string engine = "local";  // as asked for by --engine
  double patience = 1800.0;      // and by --patience
  std::string fold = "best";     // and by --fold
  std::string arithmetic = {};   // as asked for by --arithmetic, or empty
  int exit_code = 0;
};

// Options that run, resume and verify have in common.
struct RuntimeFlags {
  Runtime runtime;
  bool quiet = false;

  void add_to(CLI::App& command);
  // For commands that execute what a run directory names.
  void add_trust_to(CLI::App& command);
};

// `--set key=value` (any number) and `--seed N`.
struct OverrideFlags {
  std::vector<std::string> sets;
  std::vector<std::int64_t> seed;

  void add_to(CLI::App& command);
  std::vector<Override> overrides() const;
};

// Whole numbers from `least` on, and any number above 0. (The parser's own checks name the largest
// number there is, with all its digits.)
CLI::Validator at_least(std::int64_t least);
CLI::Validator above_zero();

void add_run_command(CLI::App& app, Program& program);
void add_resume_command(CLI::App& app, Program& program);
void add_verify_command(CLI::App& app, Program& program);
void add_sweep_command(CLI::App& app, Program& program);
void add_table_command(CLI::App& app, Program& program);
void add_arena_command(CLI::App& app, Program& program);
void add_report_command(CLI::App& app, Program& program);
void add_watch_command(CLI::App& app, Program& program);
void add_list_command(CLI::App& app, Program& program);
void add_describe_command(CLI::App& app, Program& program);
void add_inspect_command(CLI::App& app, Program& program);
void add_deal_command(CLI::App& app, Program& program);
void add_aggregate_command(CLI::App& app, Program& program);
void add_audit_command(CLI::App& app, Program& program);
void add_bench_command(CLI::App& app, Program& program);
void add_completion_command(CLI::App& app, Program& program);
void add_manual_command(CLI::App& app, Program& program);

}  // namespace winnow

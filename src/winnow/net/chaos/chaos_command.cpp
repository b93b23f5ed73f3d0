// `winnow chaos`.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/cli/console.h"
#include "winnow/cli/signals.h"
#include "winnow/net/chaos/commands.h"
#include "winnow/net/chaos/outcome.h"
#include "winnow/net/chaos/rows.h"
#include "winnow/train/lane.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

constexpr int kExitRowFailed = 1;

struct ChaosFlags {
  std::vector<int> only;
  std::uint64_t seed = 1;
  std::string keep;
  bool list = false;
};

// The folder of all rows: one that stays, or one that goes with this.
class Ground {
 public:
  explicit Ground(const std::string& keep) : stays_(!keep.empty()) {
    if (stays_) {
      folder_ = fs::absolute(keep);
      if (fs::exists(folder_)) {
        throw Error(ErrorKind::usage, fmt::format("--keep {} already exists", keep),
                    "name a folder that does not exist yet");
      }
      std::error_code failed;
      fs::create_directories(folder_, failed);
      if (failed) {
        throw Error(ErrorKind::run, fmt::format("cannot create {}: {}", keep, failed.message()));
      }
      return;
    }
    std::string name = (fs::temp_directory_path() / "winnow-chaos-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorKind::run, fmt::format("cannot create {}", name), "set TMPDIR");
    }
    folder_ = name;
  }
  ~Ground() {
    if (!stays_) {
      std::error_code ignored;
      remove_tree(folder_, ignored);
    }
  }
  Ground(const Ground&) = delete;
  Ground& operator=(const Ground&) = delete;

  const fs::path& folder() const { return folder_; }

 private:
  bool stays_;
  fs::path folder_;
};

enum class RowEnd { passed, failed, skipped };

std::string word_of(RowEnd end) {
  const bool colour = use_colour();
  switch (end) {
    case RowEnd::passed:
      return green("passed ", colour);
    case RowEnd::failed:
      return red("FAILED ", colour);
    default:
      return bold("skipped", colour);
  }
}

void print_row(const chaos::Row& row, RowEnd end, const std::string& seen, double seconds) {
  fmt::print("{:>2}  {}  {:>5.1f} s  {}\n", row.number, word_of(end), seconds, row.fault);
  fmt::print("    {:>16}  expected: {}\n", "", row.expected);
  fmt::print("    {:>16}  seen:     {}\n", "", printable(seen));
  std::fflush(stdout);
}

RowEnd play_row(const chaos::Row& row, const chaos::Stage& stage) {
  const auto begun = std::chrono::steady_clock::now();
  RowEnd end = RowEnd::passed;
  std::string seen;
  try {
    seen = row.play(stage, stage.folder / fmt::format("row-{:02}", row.number));
  } catch (const Interrupted&) {
    throw;
  } catch (const chaos::Skipped& skipped) {
    end = RowEnd::skipped;
    seen = fmt::format("skipped: {}", skipped.what());
  } catch (const std::exception& error) {
    end = RowEnd::failed;
    seen = error.what();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  print_row(row, end, seen, took.count());
  return end;
}

void play_rows(const ChaosFlags& flags, Program& program) {
  const Ground ground(flags.keep);
  const std::atomic<bool>& stop = stop_on_signals();
  const chaos::Stage stage(program.registry, ground.folder(), flags.seed, &stop);
  std::array<int, 3> counts{};
  const auto begun = std::chrono::steady_clock::now();
  try {
    for (const chaos::Row& row : chaos::rows()) {
      if (flags.only.empty() || std::ranges::count(flags.only, row.number) > 0) {
        ++counts.at(static_cast<std::size_t>(play_row(row, stage)));
      }
    }
  } catch (const Interrupted&) {
    tell("stopped\n");
    program.exit_code = kExitInterrupted;
    return;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  fmt::print("{} passed, {} failed, {} skipped in {:.0f} s\n", counts[0], counts[1], counts[2],
             took.count());
  if (counts[1] > 0 && flags.keep.empty()) {
    tell("to see what the processes of a row said, run it again with --only N --keep DIR\n");
  }
  program.exit_code = counts[1] + counts[2] > 0 ? kExitRowFailed : 0;
}

}  // namespace

void add_chaos_command(CLI::App& app, Program& program) {
  auto flags = std::make_shared<ChaosFlags>();
  CLI::App* command = app.add_subcommand(
      "chaos", "inject 25 faults into small federations and check how each one ends");
  command->add_option("--only", flags->only, "run only these rows of the table")
      ->type_name("N,...")
      ->delimiter(',')
      ->check(CLI::Range(1, static_cast<int>(chaos::rows().size())));
  command->add_option("--seed", flags->seed, "seed for the randomly chosen times and members")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--keep", flags->keep, "keep all files, in this new folder")
      ->type_name("DIR");
  command->add_flag("--list", flags->list, "print the table and run nothing");
  command->footer("Example:  winnow chaos --only 1,12 --keep chaos");
  command->callback([flags, &program] {
    if (flags->list) {
      for (const chaos::Row& row : chaos::rows()) {
        fmt::print("{:>2}  {}\n    {}\n", row.number, row.fault, row.expected);
      }
      return;
    }
    play_rows(*flags, program);
  });
}

}  // namespace winnow

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/program.h"
#include "winnow/experiment/experiment.h"
#include "winnow/sweep/sweep.h"

namespace winnow::help_test {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

namespace fs = std::filesystem;

const Words kCommands{"run",       "resume", "verify",     "sweep",    "table",   "arena",
                      "report",    "watch",  "list",       "describe", "inspect", "deal",
                      "aggregate", "bench",  "completion", "manual"};

// The experiments that a help text names, each with the command it is given to.
std::vector<std::pair<std::string, fs::path>> named_experiments(const std::string& help) {
  std::vector<std::pair<std::string, fs::path>> found;
  std::istringstream words(help);
  std::string before_last;
  std::string last;
  for (std::string word; words >> word; before_last = last, last = word) {
    if (before_last == "winnow" && word.starts_with("experiments/")) {
      found.emplace_back(last, fs::path(WINNOW_SOURCE_DIR) / word);
    }
  }
  return found;
}

TEST(Help, EveryCommandHasAnExampleThatWorks) {
  const Workshop shop;
  for (const std::string& command : kCommands) {
    const Ended help = shop.call({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("Example:  winnow " + command)) << command;
    EXPECT_EQ(help.err, "") << command;
    for (const auto& [name, file] : named_experiments(help.out)) {
      if (name == "sweep") {
        EXPECT_NO_THROW(load_sweep(file, {}, builtin_registry())) << file;
      } else {
        EXPECT_NO_THROW(load_experiment(file, {}, builtin_registry())) << file;
      }
    }
  }
}

TEST(Help, TheProgramNamesItsCommandsItsExitCodesAndWhereToStart) {
  const Ended help = Workshop().call({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const std::string& command : kCommands) {
    EXPECT_THAT(help.out, HasSubstr("  " + command + " ")) << command;
  }
  EXPECT_THAT(help.out, HasSubstr("1 a row of chaos failed or was skipped"));
  EXPECT_THAT(help.out, HasSubstr("2 usage"));
  EXPECT_THAT(help.out, HasSubstr("130 interrupted"));
  const auto start = named_experiments(help.out);
  ASSERT_EQ(start.size(), 1U);
  EXPECT_EQ(start[0].first, "run");
  EXPECT_NO_THROW(load_experiment(start[0].second, {}, builtin_registry()));
}

TEST(Help, FitsATerminalAndSaysNothingOfTheParsersTypes) {
  constexpr std::size_t kWidest = 100;
  const std::string help = Workshop().call({"--help-all"}).out;
  for (const char* word : {"INT", "FLOAT", "TEXT:", "REQUIRED", "NONNEGATIVE", "POSITIVE"}) {
    EXPECT_THAT(help, Not(HasSubstr(word)));
  }
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), kWidest) << line;
  }
  const std::string run = Workshop().call({"run", "--help"}).out;
  EXPECT_THAT(run, HasSubstr("\n  FILE                        experiment file (TOML)\n"));
  EXPECT_THAT(run,
              HasSubstr("\n  --lanes N                   number of clients to train in parallel"));
  EXPECT_THAT(run, HasSubstr("\n  --device NAME               cpu, cuda, cuda:N or auto (default: "
                             "auto)\n"));
}

TEST(Help, ValuesHaveTheSameNamesInAllCommands) {
  EXPECT_THAT(Workshop().call({"sweep", "--help"}).out, HasSubstr("--deadline SECONDS"));
  const std::string audit = Workshop().call({"audit", "--help"}).out;
  EXPECT_THAT(audit, HasSubstr("-o,--out DIR"));
  EXPECT_THAT(audit, HasSubstr("--method NAME"));
  EXPECT_THAT(audit, Not(HasSubstr("TEXT")));
}

TEST(Help, TheVersionNamesLibTorchAndWhatIsLeftOut) {
  const Ended version = Workshop().call({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, StartsWith("winnow "));
  EXPECT_THAT(version.out, HasSubstr("\nLibTorch "));
  EXPECT_THAT(version.out, HasSubstr("\nleft out of this build: "));
}

// Exit code 2, one line that says what is wrong and one that says what to do.
void expect_usage_error(const Words& arguments, const std::string& message,
                        const std::string& hint) {
  const Ended ended = Workshop().call(arguments);
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_EQ(ended.out, "");
  EXPECT_EQ(ended.err, "winnow: " + message + "\n  " + hint + "\n");
}

TEST(Usage, NoCommand) {
  expect_usage_error({}, "A subcommand is required", "try 'winnow --help'");
}

TEST(Usage, UnknownCommand) {
  expect_usage_error({"rum"}, "unknown command 'rum'", "did you mean 'run'?");
}

TEST(Usage, UnknownFlag) {
  expect_usage_error({"run", "e.toml", "--fast"}, "The following argument was not expected: --fast",
                     "try 'winnow run --help'");
}

TEST(Usage, MissingFile) {
  expect_usage_error({"run"}, "FILE is required", "try 'winnow run --help'");
}

TEST(Usage, BadValuesOfFlags) {
  expect_usage_error({"run", "e.toml", "--lanes", "0"}, "--lanes: Value 0 not in range 1 to 1024",
                     "try 'winnow run --help'");
  expect_usage_error({"run", "e.toml", "--set", "rounds"}, "--set rounds: expected key=value",
                     "for example --set train.lr=0.03");
  for (const char* seed : {"-1", "x", "1.5", "99999999999999999999"}) {
    expect_usage_error({"run", "e.toml", "--seed", seed},
                       fmt::format("--seed: expected a whole number, 0 or more, not {}", seed),
                       "try 'winnow run --help'");
  }
  expect_usage_error({"sweep", "e.toml", "--deadline", "-1"},
                     "--deadline: expected more than 0, not -1", "try 'winnow sweep --help'");
  for (const Words& words : {Words{"run", "e.toml", "--set", "rounds.x=1"},
                             {"run", "e.toml", "--set", "name=\xff"},
                             {"run", "e.toml", "--device", "tpu"},
                             {"verify", "x", "--rounds", "0"},
                             {"list", "things"},
                             {"describe", "fedprx"}}) {
    const Ended ended = Workshop().call(words);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_THAT(ended.err, StartsWith("winnow: "));
    EXPECT_LE(lines(ended.err), 2U) << ended.err;
    EXPECT_THAT(ended.err, Not(HasSubstr("internal error")));
  }
}

}  // namespace winnow::help_test

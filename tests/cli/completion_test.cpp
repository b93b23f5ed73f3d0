// The completion of bash, tried in a bash, and the manual page, compared with the help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <regex>

#include "cli/program.h"
#include "winnow/method/method.h"

namespace winnow::completion_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string printed(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  for (std::size_t size = 0; (size = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    text.append(buffer, size);
  }
  EXPECT_EQ(::pclose(pipe), 0) << command << ": " << text;
  return text;
}

// A shell that has loaded the script.
class Bash {
 public:
  Bash() { write_file_whole(shop_ / "script", shop_.done({"completion", "bash"}).out); }

  const Workshop& shop() const { return shop_; }

  // What is offered for the last of the words, as bash cuts them.
  Words offered(const Words& words) const {
    std::string line = "set -u; source ./script; COMP_WORDS=(winnow";
    for (const std::string& word : words) {
      line += fmt::format(" '{}'", word);
    }
    line += fmt::format("); COMP_CWORD={}; _winnow; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                        words.size());
    write_file_whole(shop_ / "try", line);
    const std::string command =
        fmt::format("cd '{}' && bash --norc ./try 2>&1", (shop_ / ".").string());
    const std::string text = printed(command);
    Words found = split(text, '\n');
    std::erase(found, "");
    std::ranges::sort(found);
    return found;
  }

 private:
  Workshop shop_;
};

std::filesystem::path shop_copy(const Workshop& shop) {
  return shop / "winnow";
}

std::string printed_by(const std::filesystem::path& program, const std::string& words) {
  return printed(fmt::format("'{}' {}", program.string(), words));
}

TEST(Completion, OffersCommands) {
  const Bash bash;
  EXPECT_THAT(bash.offered({"re"}), ElementsAre("report", "resume"));
  EXPECT_THAT(bash.offered({"--arithmetic", "avx2", "ver"}), ElementsAre("verify"));
  EXPECT_THAT(bash.offered({"--arithmetic", "av"}), ElementsAre("avx2", "avx512"));
}

TEST(Completion, OffersTheOptionsOfACommand) {
  const Bash bash;
  EXPECT_THAT(bash.offered({"run", "e.toml", "--l"}), ElementsAre("--lanes"));
  EXPECT_THAT(bash.offered({"run", "--"}), AllOf(Contains("--set"), Not(Contains("--jobs"))));
  EXPECT_THAT(bash.offered({"sweep", "--order", ""}), ElementsAre("file", "seed"));
  EXPECT_THAT(bash.offered({"run", "--device", "=", "cu"}), ElementsAre("cuda"));
  EXPECT_THAT(bash.offered({"run", "--engine", ""}), ElementsAre("local", "mpi"));
  EXPECT_THAT(bash.offered({"run", "--lanes", ""}), IsEmpty());
}

TEST(Completion, OffersNames) {
  const Bash bash;
  EXPECT_THAT(bash.offered({"describe", "fedp"}), ElementsAre("fedprox"));
  EXPECT_THAT(bash.offered({"describe", "lenet"}), ElementsAre("lenet5", "lenet5_valid"));
  EXPECT_THAT(bash.offered({"describe", ""}),
              AllOf(Contains("fashion-mnist"), Contains("fedcorr_labels"), Contains("train")));
  EXPECT_THAT(bash.offered({"list", "mo"}), ElementsAre("models"));
  EXPECT_THAT(bash.offered({"completion", ""}), ElementsAre("bash", "fish", "zsh"));
  EXPECT_THAT(bash.offered({"aggregate", "--method", "median,kr"}), ElementsAre("median,krum"));
  EXPECT_THAT(bash.offered({"table", "--metric", "best,la"}),
              ElementsAre("best,last", "best,last10"));
}

TEST(Completion, OffersFilesThatFit) {
  const Bash bash;
  write_file_whole(bash.shop() / "notes.txt", "");
  write_file_whole(bash.shop() / "done.csv", "");
  std::filesystem::create_directory(bash.shop() / "my runs");
  EXPECT_THAT(bash.offered({"run", ""}), ElementsAre("e.toml", "my runs"));
  EXPECT_THAT(bash.offered({"resume", ""}), ElementsAre("my runs"));
  EXPECT_THAT(bash.offered({"sweep", "--done", "d"}), ElementsAre("done.csv"));
}

TEST(Completion, OffersKeysAndWhatTheyCanBe) {
  const Bash bash;
  EXPECT_THAT(bash.offered({"run", "e.toml", "--set", "train.l"}),
              AllOf(Contains("train.lr="), Each(StartsWith("train.l"))));
  EXPECT_THAT(bash.offered({"run", "--set", "method.m"}), Contains("method.mu="));
  EXPECT_THAT(bash.offered({"run", "--set", "noise.0.r"}), Contains("noise.0.rho="));
  EXPECT_THAT(bash.offered({"run", "--set", "method.name", "=", "fedpr"}), ElementsAre("fedprox"));
  EXPECT_THAT(bash.offered({"run", "--set", "model.name", "="}), Contains("lenet5"));
}

// The program that knows the commands of a real federation.
std::filesystem::path net_program() {
  return std::filesystem::path(WINNOW_PROGRAM).parent_path() / "winnow-net";
}

TEST(Completion, OffersCommandsWithinCommands) {
  if (!std::filesystem::exists(net_program())) {
    GTEST_SKIP() << "winnow-net is not there";
  }
  const Bash bash;
  EXPECT_THAT(bash.offered({"pki", "re"}), ElementsAre("request", "revoke"));
  EXPECT_THAT(bash.offered({"pki", "issue", ""}), ElementsAre("client", "server"));
  EXPECT_THAT(bash.offered({"pki", "issue", "client", "ann", "--r"}), ElementsAre("--replace"));
  EXPECT_THAT(bash.offered({"pki", "list", "--a"}), ElementsAre("--authority"));
  EXPECT_THAT(bash.offered({"join", "--che"}), ElementsAre("--check"));
  EXPECT_THAT(bash.offered({"join", "--device", "cu"}), ElementsAre("cuda"));
  EXPECT_THAT(bash.offered({"chaos", "--l"}), ElementsAre("--list"));
}

// Installed by itself, the program lists what winnow-net would know and says where that is.
TEST(Completion, DoesWithoutTheProgramOfFederations) {
  const Workshop shop;
  std::filesystem::copy_file(WINNOW_PROGRAM, shop_copy(shop));
  const std::string manual = printed_by(shop_copy(shop), "manual");
  EXPECT_THAT(manual, HasSubstr("\\fBwinnow\\fR \\fBserve\\fR"));
  EXPECT_THAT(manual, HasSubstr("Its options are those of the program winnow\\-net"));
  EXPECT_THAT(manual, Not(HasSubstr("metrics\\-port")));
  EXPECT_THAT(printed_by(shop_copy(shop), "completion bash"), HasSubstr("'serve')"));
  EXPECT_THAT(printed_by(shop_copy(shop), "--help-all"), HasSubstr("swarm"));
  // A link to itself, and what cannot be started, are not that program either.
  const std::filesystem::path other = shop_copy(shop).parent_path() / "winnow-net";
  std::filesystem::create_symlink(shop_copy(shop), other);
  EXPECT_EQ(printed_by(shop_copy(shop), "manual"), manual);
  std::filesystem::remove(other);
  std::filesystem::create_directory(other);
  EXPECT_EQ(printed_by(shop_copy(shop), "manual"), manual);
}

TEST(Completion, KnowsEveryCommandAndOptionOfTheHelp) {
  const Workshop shop;
  const std::string help = shop.done({"--help-all"}).out;
  const std::string manual = shop.done({"manual"}).out;
  const std::regex option(R"(--[a-z][a-z0-9-]*)");
  std::vector<std::string> scripts;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    scripts.push_back(shop.done({"completion", shell}).out);
  }
  int options = 0;
  for (const std::string& line : split(help, '\n')) {
    std::smatch found;
    // The column of names; what follows is text.
    const std::string names = line.substr(0, 32);
    if (!line.starts_with("  ") || !std::regex_search(names, found, option)) {
      continue;
    }
    ++options;
    std::string in_manual = found.str();
    for (std::size_t at = 0; (at = in_manual.find('-', at)) != std::string::npos; at += 2) {
      in_manual.insert(at, "\\");
    }
    EXPECT_THAT(manual, HasSubstr("\\fB" + in_manual + "\\fR"));
    EXPECT_THAT(scripts[0], HasSubstr(found.str()));
    EXPECT_THAT(scripts[1], HasSubstr(found.str()));
    EXPECT_THAT(scripts[2], HasSubstr(" -l " + found.str().substr(2)));
  }
  EXPECT_GT(options, 50);
  if (std::filesystem::exists(net_program())) {
    for (const char* of_a_federation :
         {"--metrics-port", "--agree", "--certificates", "--keep", "--replace", "--days"}) {
      EXPECT_THAT(help, HasSubstr(of_a_federation));
    }
    EXPECT_THAT(manual, HasSubstr(".SS \\fBwinnow\\fR \\fBpki issue server\\fR"));
    EXPECT_THAT(manual, Not(HasSubstr("Its options are those of")));
  }
}

// Every command's own example is there, and the program's words about itself are there once.
TEST(Manual, RepeatsNoFooter) {
  const std::string manual = Workshop().done({"manual"}).out;
  EXPECT_THAT(manual, Not(HasSubstr("Start here:")));
  EXPECT_THAT(manual, Not(HasSubstr("Exit codes:")));
  EXPECT_THAT(manual, HasSubstr("real federation"));
}

TEST(Manual, HasTheExitCodesOfTheDesign) {
  const Workshop shop;
  const std::string manual = shop.done({"manual"}).out;
  const std::string design = read_file(std::filesystem::path(WINNOW_SOURCE_DIR) / "docs/design.md");
  const std::size_t begin = design.find("| code | meaning |");
  ASSERT_NE(begin, std::string::npos);
  int codes = 0;
  for (const std::string& line :
       split(design.substr(begin, design.find("\n\n", begin) - begin), '\n')) {
    const std::regex row(R"(\| (\d+) \| (.*) \|)");
    std::smatch cells;
    if (std::regex_match(line, cells, row)) {
      ++codes;
      const std::string meaning = std::regex_replace(cells[2].str(), std::regex("`"), "");
      EXPECT_THAT(manual, HasSubstr(fmt::format(".TP\n\\fB{}\\fR\n{}\n", cells[1].str(), meaning)));
    }
  }
  EXPECT_EQ(codes, 12);
}

TEST(Manual, NamesVariablesAndFiles) {
  const std::string manual = Workshop().done({"manual"}).out;
  for (const char* name : {"WINNOW_DATA", "WINNOW_ARITHMETIC", "NO_COLOR", "experiment.toml",
                           "events.jsonl", "summary.json", "ledger.jsonl"}) {
    EXPECT_THAT(manual, HasSubstr(std::string("\\fB") + name + "\\fR")) << name;
  }
  for (const char* part : {".SH NAME", ".SH SYNOPSIS", ".SH EXIT STATUS", ".SH ENVIRONMENT"}) {
    EXPECT_THAT(manual, HasSubstr(part));
  }
}

}  // namespace winnow::completion_test

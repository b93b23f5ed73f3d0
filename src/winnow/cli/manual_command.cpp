// `winnow manual`: the manual page, made from what the parser knows.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "winnow/base/build_info.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/command_tree.h"
#include "winnow/cli/far_commands.h"
#include "winnow/run/run_directory.h"

namespace winnow {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// docs/design.md has the same table.
const Pairs& exit_codes() {
  static const Pairs codes{
      {"0", "done"},
      {"1", "a row of chaos failed or was skipped"},
      {"2", "the command line is wrong"},
      {"3", "the experiment file or a value in it is wrong"},
      {"4", "a data file is missing, damaged or of the wrong shape"},
      {"5",
       "a run directory or a running experiment failed (also a full disk, too little memory, or an "
       "MPI rank that is silent or computes differently)"},
      {"6", "another process sent something that does not fit"},
      {"7", "verify found a difference"},
      {"8", "some run of a sweep failed"},
      {"9", "a condition that audit was given holds"},
      {"70", "a bug in Winnow"},
      {"130", "stopped by SIGINT, SIGTERM or SIGHUP after saving"}};
  return codes;
}

const Pairs& variables() {
  static const Pairs all{
      {"WINNOW_DATA",
       "Folder that is searched first for data sets and for relative paths in experiments."},
      {"WINNOW_ARITHMETIC", "The default of --arithmetic."},
      {"HOME", "Data sets are also looked for in ~/.cache/winnow."},
      {"NO_COLOR", "If set and not empty, output has no colours."}};
  return all;
}

const Pairs& files() {
  static const Pairs all{
      {kExperimentFile, "The experiment with every key, as it was run."},
      {kEventsFile, "The log: an event in JSON on every line."},
      {kMetricsFile, "What was measured after each round."},
      {kFindingsFile, "What the method found, compared with the truth."},
      {kPartitionFile, "How many samples of each class every client holds."},
      {kLedgerFile, "Every corruption that was injected."},
      {"checkpoint/", "The last saved round, from which resume continues."},
      {"model.safetensors, model.pt", "The trained model, the second as TorchScript."},
      {kSummaryFile, "The result; a run is complete once it exists."}};
  return all;
}

// Text that cannot be taken for a command of roff.
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) {
      result += "\\&";
      result += c;
    } else {
      result += c;
    }
  }
  return result;
}

std::string bold_text(std::string_view text) {
  return fmt::format("\\fB{}\\fR", plain(text));
}

std::string slanted(std::string_view text) {
  return fmt::format("\\fI{}\\fR", plain(text));
}

std::string option_entry(const OptionText& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) {
    names.push_back(option.positional ? slanted(name) : bold_text(name));
  }
  std::string head = join(names, ", ");
  if (!option.positional && !option.value.empty()) {
    head += " " + slanted(option.value);
  }
  std::string help = plain(option.help);
  if (!option.by_default.empty()) {
    help += fmt::format(" (default: {})", plain(option.by_default));
  }
  return fmt::format(".TP\n{}\n{}\n", head, help);
}

// Lines of a footer: an example as it is typed, the rest as text.
std::string footer_entry(const std::string& footer) {
  std::string text;
  for (const std::string& line : split(footer, '\n')) {
    constexpr std::string_view kExample = "Example:";
    if (line.starts_with(kExample)) {
      text += fmt::format(".PP\nExample:\n.PP\n.RS\n.EX\n{}\n.EE\n.RE\n",
                          plain(trim(line.substr(kExample.size()))));
    } else if (!line.empty()) {
      text += fmt::format(".br\n{}\n", plain(line));
    }
  }
  return text;
}

std::string synopsis(const CommandText& command) {
  std::string line = fmt::format("{} {}", bold_text("winnow"), bold_text(command.name));
  for (const OptionText& option : command.options) {
    if (option.positional) {
      line += fmt::format(" {}{}", slanted(option.names.front()), option.repeats ? " ..." : "");
    }
  }
  return line + (command.commands.empty() ? " [" + slanted("options") + "]"
                                          : " " + bold_text(join(command.commands, "|")));
}

std::string section(const std::string& title, const Pairs& entries) {
  std::string text = fmt::format(".SH {}\n", title);
  for (const auto& [name, meaning] : entries) {
    text += fmt::format(".TP\n{}\n{}\n", bold_text(name), plain(meaning));
  }
  return text;
}

std::string manual_page(const std::vector<CommandText>& texts) {
  const CommandText& program = texts.front();
  std::string page = fmt::format(
      ".\\\" Written by: winnow manual\n.TH WINNOW 1 \"\" \"winnow {}\" \"User Commands\"\n"
      ".SH NAME\nwinnow \\- federated learning that survives noisy clients\n.SH SYNOPSIS\n",
      build_info::kVersion);
  for (const CommandText& command : texts) {
    if (!command.name.empty() && command.commands.empty()) {
      page += fmt::format("{}\n.br\n", synopsis(command));
    }
  }
  page +=
      ".SH DESCRIPTION\n"
      "Winnow simulates a federation on one machine, injects noise into its clients' data, records "
      "every corruption in a ledger, and compares methods under the same seed, bit for bit. An "
      "experiment is a file in TOML; a run of it fills a run directory.\n"
      ".PP\nThe same methods also run in a real federation, between machines that keep their data: "
      "pki makes certificates, serve runs the server, join and swarm take part, and chaos tries "
      "what "
      "can go wrong. The audit command finds wrong labels, bad images and noisy clients in data of "
      "your own.\n"
      ".SH OPTIONS\n"
      "All commands take these, except \\-\\-version:\n";
  for (const OptionText& option : program.options) {
    page += option_entry(option);
  }
  page += ".SH COMMANDS\n";
  for (const CommandText& command : texts) {
    if (command.name.empty()) {
      continue;
    }
    page += fmt::format(".SS {}\n{}\n", synopsis(command), plain(command.help));
    for (const OptionText& option : command.options) {
      if (std::ranges::count(program.options, option.names, &OptionText::names) == 0) {
        page += option_entry(option);
      }
    }
    page += footer_entry(command.footer);
  }
  page += section("EXIT STATUS", exit_codes());
  page += section("ENVIRONMENT", variables());
  page += section("FILES", files());
  page +=
      ".PP\nThese make up a run directory, by default runs/NAME. They are described in formats.md "
      "among the documents that come with the program.\n"
      ".SH SEE ALSO\nThe README, the guide and the pages of all methods, usually in "
      "/usr/share/doc/winnow.\n";
  return page;
}

}  // namespace

void add_manual_command(CLI::App& app, Program& program) {
  CLI::App* command = app.add_subcommand("manual", "print the manual page in man format");
  command->footer("Example:  winnow manual | man -l -");
  command->callback([&app, &program] {
    let_net_program_tell(app, program);
    fmt::print("{}", manual_page(command_texts(app, program.registry)));
  });
}

}  // namespace winnow

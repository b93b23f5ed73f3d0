#include "winnow/cli/help_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/text.h"
#include "winnow/cli/console.h"

namespace winnow {
namespace {

// A name that does not leave two blanks before the text has a line of its own.
std::string help_entry(const std::string& name, const std::string& text, std::size_t column) {
  constexpr std::size_t kLeast = 40;
  const auto width = static_cast<std::size_t>(std::clamp(terminal_width(), 60, 100));
  const std::size_t room = std::max(kLeast, width - column);
  const std::string begin = "  " + name;
  std::string entry = begin;
  std::size_t at = begin.size();
  if (at + 2 > column) {
    entry += '\n';
    at = 0;
  }
  for (const std::string& line : wrap_words(text, room)) {
    entry += std::string(column - at, ' ') + line + '\n';
    at = 0;
  }
  return entry;
}

// "INT:INT in [1 - 1024]" is a number, "TEXT:{file,seed}" a choice.
std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{');
  if (open != std::string::npos && type.back() == '}') {
    return join(split(type.substr(open + 1, type.size() - open - 2), ','), "|");
  }
  const std::string name = type.substr(0, type.find(':'));
  return name == "INT" || name == "UINT" || name == "FLOAT" ? "N" : name;
}

// "pki init", what is typed behind the program's name.
std::string words_of(const CLI::App& command) {
  const CLI::App* outer = command.get_parent();
  return outer == nullptr || outer->get_parent() == nullptr
             ? command.get_name()
             : words_of(*outer) + " " + command.get_name();
}

}  // namespace

std::string HelpFormat::make_option(const CLI::Option* option, bool is_positional) const {
  const std::string value = is_positional ? "" : make_option_opts(option);
  return help_entry(make_option_name(option, is_positional) + value, make_option_desc(option),
                    column_width_);
}

std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
  return option->get_type_size() == 0 ? "" : " " + value_name(*option);
}

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
  const std::string by_default = option->get_default_str();
  std::string text = option->get_description();
  if (by_default.empty()) {
    return option->get_required() && option->nonpositional() ? text + " (required)" : text;
  }
  return fmt::format("{} (default: {})", text, by_default);
}

std::string HelpFormat::make_subcommand(const CLI::App* command) const {
  return help_entry(command->get_display_name(true), command->get_description(), column_width_);
}

std::string HelpFormat::make_expanded(const CLI::App* command) const {
  std::string text = CLI::Formatter::make_expanded(command);
  text.replace(0, text.find('\n'), words_of(*command));
  for (const CLI::App* own : command->get_subcommands([](const CLI::App*) { return true; })) {
    text += "\n" + make_expanded(own);
  }
  return text;
}

}  // namespace winnow

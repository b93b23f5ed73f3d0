// `winnow completion`: scripts by which shells complete the program's command line. All words are
// in the script: asking the program would start LibTorch for every press of the tab key.
#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/command_tree.h"
#include "winnow/cli/far_commands.h"

namespace winnow {
namespace {

using Texts = std::vector<CommandText>;
using Keys = std::vector<KeyText>;

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

std::vector<std::string> keys_of(const Keys& keys) {
  std::vector<std::string> names;
  for (const KeyText& key : keys) {
    names.push_back(key.key);
  }
  return names;
}

std::vector<std::string> command_names(const Texts& texts) {
  std::vector<std::string> names;
  for (const CommandText& text : texts) {
    if (!text.name.empty() && text.name.find(' ') == std::string::npos) {
      names.push_back(text.name);
    }
  }
  return names;
}

// A command within another one, by its whole name.
const CommandText& command_within(const Texts& texts, const CommandText& outer,
                                  const std::string& name) {
  return *std::ranges::find(texts, outer.name + " " + name, &CommandText::name);
}

// ---- bash

std::string bash_offer(const OptionText& option) {
  switch (option.offer) {
    case Offer::words:
      return fmt::format("_winnow_words '{}'", join(option.words, " "));
    case Offer::lists:
      return fmt::format("_winnow_list '{}'", join(option.words, " "));
    case Offer::keys:
      return "_winnow_keys";
    case Offer::folders:
      return "_winnow_files";
    case Offer::files:
      return fmt::format("_winnow_files '*{}'", option.ending);
    case Offer::nothing:
      break;
  }
  return ":";
}

std::string bash_command(const CommandText& text) {
  std::vector<std::string> names;
  std::string values;
  std::string rest = ":";
  for (const OptionText& option : text.options) {
    if (option.positional) {
      rest = bash_offer(option);
      continue;
    }
    names.insert(names.end(), option.names.begin(), option.names.end());
    if (!option.value.empty()) {
      values +=
          fmt::format("        {}) {}; return ;;\n", join(option.names, " | "), bash_offer(option));
    }
  }
  if (text.name.empty()) {
    rest = "_winnow_words \"$commands\"";
  } else if (!text.commands.empty()) {
    rest = fmt::format("_winnow_words '{}'", join(text.commands, " "));
  }
  return fmt::format(
      "    '{}')\n"
      "      case $prev in\n"
      "{}"
      "      esac\n"
      "      if [[ $cur == -* ]]; then _winnow_words '{}'; else {}; fi ;;\n",
      text.name, values, join(names, " "), rest);
}

std::string bash_script(const Texts& texts, const Keys& keys) {
  std::string values;
  for (const KeyText& key : keys) {
    if (!key.values.empty()) {
      values += fmt::format("    {}) _winnow_words '{}' ;;\n", key.key, join(key.values, " "));
    }
  }
  std::string commands;
  std::vector<std::string> outer;
  for (const CommandText& text : texts) {
    commands += bash_command(text);
    if (!text.commands.empty()) {
      outer.push_back(fmt::format("'{}'", text.name));
    }
  }
  std::string script =
      R"(# Completion of winnow's command line in bash; written by: winnow completion bash
_winnow_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

# Words joined by commas.
_winnow_list() {
  local before=
  if [[ $cur == *,* ]]; then before=${cur%,*},; fi
  mapfile -t COMPREPLY < <(compgen -P "$before" -W "$1" -- "${cur##*,}")
}

# Folders, and files of a pattern if one is given.
_winnow_files() {
  compopt -o filenames 2> /dev/null
  mapfile -t COMPREPLY < <(compgen -d -- "$cur"; [[ -z ${1:-} ]] || compgen -f -X "!$1" -- "$cur")
}

_winnow_keys() {
  compopt -o nospace 2> /dev/null
  mapfile -t COMPREPLY < <(compgen -S = -W "@KEYS@" -- "$cur")
}

# What a key of --set can be.
_winnow_values() {
  case $1 in
@VALUES@  esac
}

_winnow() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= word i
  local commands='@NAMES@'
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == --arithmetic ]]; then
      ((++i))
    elif [[ $word != -* ]]; then
      command+=${command:+ }$word
      # These have commands of their own.
      case $command in
        @OUTER@) ;;
        *) break ;;
      esac
    fi
  done
  # To bash an equals sign is a word of its own: --set KEY = VALUE, --out = DIR.
  i=$COMP_CWORD
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]]; then
    ((--i))
  fi
  if [[ ${COMP_WORDS[i]} == = && $i -ge 2 ]]; then
    prev=${COMP_WORDS[i-1]}
    if [[ $prev != -* ]]; then
      _winnow_values "$prev"
      return
    fi
  fi
  case $command in
@COMMANDS@  esac
}

complete -F _winnow winnow
)";
  script = replaced(script, "@KEYS@", join(keys_of(keys), " "));
  script = replaced(script, "@VALUES@", values);
  script = replaced(script, "@NAMES@", join(command_names(texts), " "));
  script = replaced(script, "@OUTER@", outer.empty() ? "''" : join(outer, " | "));
  return replaced(script, "@COMMANDS@", commands);
}

// ---- zsh

// For the inside of single quotes, in a specification of _arguments.
std::string zsh_text(std::string text) {
  for (const char* special : {"\\", "[", "]", ":"}) {
    text = replaced(text, special, std::string("\\") + special);
  }
  return replaced(text, "'", "'\\''");
}

std::string zsh_offer(const OptionText& option) {
  switch (option.offer) {
    case Offer::words:
      return fmt::format("({})", join(option.words, " "));
    case Offer::lists:
      return fmt::format("_sequence compadd - {}", join(option.words, " "));
    case Offer::keys:
      return "_winnow_keys";
    case Offer::folders:
      return "_files -/";
    case Offer::files:
      return option.ending.empty() ? "_files" : fmt::format(R"(_files -g "*{}")", option.ending);
    case Offer::nothing:
      break;
  }
  return " ";
}

std::string zsh_argument(const OptionText& option) {
  const std::string action = zsh_offer(option);
  if (option.positional) {
    return fmt::format("'{}:{}:{}'", option.repeats ? "*" : "1", option.names.front(), action);
  }
  const std::string value = option.value.empty() ? "" : fmt::format(":value:{}", action);
  const std::string text = fmt::format("'[{}]{}'", zsh_text(option.help), value);
  const std::string repeats = option.repeats ? "'*'" : "";
  if (option.names.size() == 1) {
    return repeats + option.names.front() + text;
  }
  return fmt::format("{}{{{}}}{}",
                     repeats.empty() ? fmt::format("'({})'", join(option.names, " ")) : repeats,
                     join(option.names, ","), text);
}

std::string zsh_arguments(const CommandText& text) {
  std::string arguments;
  for (const OptionText& option : text.options) {
    arguments += fmt::format(" \\\n        {}", zsh_argument(option));
  }
  return arguments;
}

// What completes the words of a command, with its own commands if it has some.
std::string zsh_command(const Texts& texts, const CommandText& text) {
  if (text.commands.empty()) {
    return fmt::format("      _arguments{} ;;\n", zsh_arguments(text));
  }
  const std::string state = replaced(text.name, " ", "_");
  std::string within;
  for (const std::string& name : text.commands) {
    within +=
        fmt::format("      {})\n{}", name, zsh_command(texts, command_within(texts, text, name)));
  }
  return fmt::format(
      "      _arguments -C{} \\\n        '1:command:({})' '*:: :->{}'\n"
      "      if [[ $state == {} ]]; then\n      case $words[1] in\n{}      esac\n      fi ;;\n",
      zsh_arguments(text), join(text.commands, " "), state, state, within);
}

std::string zsh_script(const Texts& texts, const Keys& keys) {
  std::string described;
  std::string cases;
  for (const std::string& name : command_names(texts)) {
    const CommandText& text = *std::ranges::find(texts, name, &CommandText::name);
    described += fmt::format("    '{}:{}'\n", name, zsh_text(text.help));
    cases += fmt::format("      {})\n{}", name, zsh_command(texts, text));
  }
  std::string values;
  for (const KeyText& key : keys) {
    if (!key.values.empty()) {
      values += fmt::format("    {}) compadd - {} ;;\n", key.key, join(key.values, " "));
    }
  }
  std::string script = R"(#compdef winnow
# Completion of winnow's command line in zsh; written by: winnow completion zsh
_winnow_keys() {
  if ! compset -P '*='; then
    compadd -S = - @KEYS@
    return
  fi
  case ${IPREFIX%=} in
@VALUES@  esac
}

_winnow() {
  local curcontext=$curcontext state
  local -a line commands=(
@DESCRIBED@  )
  _arguments -C@OPTIONS@ \
        '1: :->command' '*:: :->rest'
  case $state in
    command) _describe command commands ;;
    rest)
      case $words[1] in
@CASES@      esac ;;
  esac
}

if [[ $funcstack[1] == _winnow ]]; then
  _winnow "$@"
else
  compdef _winnow winnow
fi
)";
  script = replaced(script, "@KEYS@", join(keys_of(keys), " "));
  script = replaced(script, "@VALUES@", values);
  script = replaced(script, "@DESCRIBED@", described);
  script = replaced(script, "@OPTIONS@", zsh_arguments(texts.front()));
  return replaced(script, "@CASES@", cases);
}

// ---- fish

std::string fish_text(const std::string& text) {
  return fmt::format("'{}'", replaced(replaced(text, "\\", "\\\\"), "'", "\\'"));
}

std::string fish_offer(const OptionText& option) {
  switch (option.offer) {
    case Offer::words:
    case Offer::lists:
      return fmt::format(" -a {}", fish_text(join(option.words, " ")));
    case Offer::keys:
      return " -a '(__winnow_keys)'";
    case Offer::folders:
      return " -a '(__fish_complete_directories)'";
    case Offer::files:
      return fmt::format(" -a '(__fish_complete_suffix {})'", option.ending);
    case Offer::nothing:
      break;
  }
  return "";
}

std::string fish_option(const std::string& condition, const OptionText& option) {
  std::string line = fmt::format("complete -c winnow -n '{}'", condition);
  if (option.positional) {
    return fmt::format("{}{}\n", line, fish_offer(option));
  }
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.value.empty()) {
    line += " -x" + fish_offer(option);
  }
  return fmt::format("{} -d {}\n", line, fish_text(option.help));
}

// Where a command's options are offered, and the names of its own commands.
std::string fish_condition(const CommandText& text) {
  if (text.name.empty()) {
    return "__fish_use_subcommand";
  }
  std::vector<std::string> parts;
  for (const std::string& word : split(text.name, ' ')) {
    parts.push_back("__fish_seen_subcommand_from " + word);
  }
  if (!text.commands.empty()) {
    parts.push_back("not __fish_seen_subcommand_from " + join(text.commands, " "));
  }
  return join(parts, "; and ");
}

// The command that a command is within; none: the program.
const CommandText* outer_of(const Texts& texts, const CommandText& text) {
  const std::size_t space = text.name.rfind(' ');
  return space == std::string::npos
             ? nullptr
             : &*std::ranges::find(texts, text.name.substr(0, space), &CommandText::name);
}

std::string fish_script(const Texts& texts, const Keys& keys) {
  std::string script =
      R"(# Completion of winnow's command line in fish; written by: winnow completion fish
function __winnow_keys
)";
  for (const KeyText& key : keys) {
    script += fmt::format("    echo {}=\n", key.key);
    for (const std::string& value : key.values) {
      script += fmt::format("    echo {}={}\n", key.key, value);
    }
  }
  script += "end\n\ncomplete -c winnow -f\n";
  for (const CommandText& text : texts) {
    const std::vector<std::string> path = split(text.name, ' ');
    if (!text.name.empty()) {
      const CommandText* outer = outer_of(texts, text);
      script += fmt::format(
          "complete -c winnow -n {} -a {} -d {}\n",
          outer == nullptr ? "__fish_use_subcommand" : fmt::format("'{}'", fish_condition(*outer)),
          path.back(), fish_text(text.help));
    }
    const std::string condition = fish_condition(text);
    for (const OptionText& option : text.options) {
      script += fish_option(condition, option);
    }
  }
  return script;
}

}  // namespace

void add_completion_command(CLI::App& app, Program& program) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "print a completion script for your shell");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Example:  winnow completion bash > ~/.local/share/bash-completion/completions/winnow");
  command->callback([shell, &app, &program] {
    let_net_program_tell(app, program);
    const Texts texts = command_texts(app, program.registry);
    const Keys keys = experiment_keys(program.registry);
    fmt::print("{}", *shell == "bash"  ? bash_script(texts, keys)
                     : *shell == "zsh" ? zsh_script(texts, keys)
                                       : fish_script(texts, keys));
  });
}

}  // namespace winnow

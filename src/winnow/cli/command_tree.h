// What the parser knows of the program's commands, for what is made from it: the manual page and
// the completion in shells.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "winnow/experiment/registry.h"

namespace winnow {

// What a shell may offer for a value.
enum class Offer { nothing, words, lists, keys, folders, files };

struct OptionText {
  std::vector<std::string> names;  // "-o", "--out"; of a positional argument its one name
  std::string value;               // what stands for its value, "TEXT"; empty: it is a flag
  std::string help;
  std::string by_default;  // empty: none, or the help says it
  bool positional = false;
  bool repeats = false;
  Offer offer = Offer::nothing;
  std::vector<std::string> words = {};  // Offer::words, and ::lists, where commas join several
  std::string ending = {};              // Offer::files: that names end in; empty: any
};

struct CommandText {
  std::string name;  // empty: the program itself; "pki init" of a command within one
  std::string help;
  std::string footer;
  std::vector<OptionText> options;
  std::vector<std::string> commands = {};  // of a command that has commands: their last words
};

// The program, then its commands in their order, each followed by its own.
std::vector<CommandText> command_texts(const CLI::App& app, const Registry& registry);

// The keys that `--set` takes, with the values that can be listed.
struct KeyText {
  std::string key;
  std::vector<std::string> values = {};
};
std::vector<KeyText> experiment_keys(const Registry& registry);

}  // namespace winnow

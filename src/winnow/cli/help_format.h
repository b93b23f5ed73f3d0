// How `--help` is laid out: names and values in one column, what they mean in the other.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace winnow {

// The parser's own layout names every type and limit and does not break lines. This one shows
// "--lanes N" for "--lanes INT:INT in [1 - 1024]", puts defaults behind the text and breaks it at
// the terminal's width.
class HelpFormat : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  // In the help of all commands, with the commands within it.
  std::string make_expanded(const CLI::App* command) const override;
};

}  // namespace winnow

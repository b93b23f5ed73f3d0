#include "winnow/cli/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "winnow/base/text.h"

namespace winnow {
namespace {

std::string wrapped(std::string_view text, const char* code, bool colour) {
  return colour ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
}

}  // namespace

bool stdout_is_terminal() {
  return ::isatty(STDOUT_FILENO) != 0;
}

bool stderr_is_terminal() {
  return ::isatty(STDERR_FILENO) != 0;
}

bool use_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  return stdout_is_terminal() && (no_colour == nullptr || *no_colour == '\0');
}

std::string bold(std::string_view text, bool colour) {
  return wrapped(text, "1", colour);
}
std::string dim(std::string_view text, bool colour) {
  return wrapped(text, "2", colour);
}
std::string red(std::string_view text, bool colour) {
  return wrapped(text, "31", colour);
}
std::string green(std::string_view text, bool colour) {
  return wrapped(text, "32", colour);
}

void tell(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void keep_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) < 0) {
      std::ignore = ::open("/dev/null", O_RDWR);  // takes the lowest free number, which is this one
    }
  }
}

int terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return 80;
}

std::vector<std::string> wrap_words(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  for (const std::string& word : split(text, ' ')) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) {
      lines.emplace_back();
    }
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

std::string columns(const std::vector<std::vector<std::string>>& rows, int width) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::size_t indent = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    indent += widths[i] + 2;
  }
  const std::size_t room = std::max<std::size_t>(
      30, static_cast<std::size_t>(width) > indent ? static_cast<std::size_t>(width) - indent : 0);
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      line += fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    const auto parts = row.empty() ? std::vector<std::string>{} : wrap_words(row.back(), room);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      text += (part == 0 ? line : std::string(line.size(), ' ')) + parts[part] + "\n";
    }
  }
  return text;
}

}  // namespace winnow

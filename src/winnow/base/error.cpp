#include "winnow/base/error.h"

#include <fmt/format.h>

namespace winnow {

std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    const bool control = (code < 32 && c != '\n' && c != '\t') || code == 127;
    result += control ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  return result;
}

Error::Error(ErrorKind kind, std::string_view message, std::string_view hint)
    : std::runtime_error(printable(message)), kind_(kind), hint_(printable(hint)) {}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return 2;
    case ErrorKind::experiment:
      return 3;
    case ErrorKind::data:
      return 4;
    case ErrorKind::run:
      return 5;
    case ErrorKind::peer:
      return 6;
    case ErrorKind::internal:
      break;
  }
  return 70;
}

}  // namespace winnow

// Programs around the library compute as the program itself does: with an arithmetic by name, the
// best of the CPU or that of WINNOW_ARITHMETIC, never with what the libraries happen to choose.
#pragma once

#include <fmt/format.h>

#include "winnow/base/arithmetic.h"
#include "winnow/base/error.h"

namespace winnow {

// What main() returns.
template <typename Program>
int with_arithmetic(const char* const* argv, const Program& program) {
  try {
    adopt_arithmetic(default_arithmetic(), argv);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return exit_code(error.kind());
  }
  return program();
}

}  // namespace winnow

// The main() of the test programs: like the program itself they compute with an arithmetic by name,
// the best of the CPU or that of WINNOW_ARITHMETIC, never with what the libraries happen to choose.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "winnow/base/arithmetic.h"
#include "winnow/base/error.h"

int main(int argc, char** argv) {
  try {
    winnow::adopt_arithmetic(winnow::default_arithmetic(), argv);
  } catch (const winnow::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return winnow::exit_code(error.kind());
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

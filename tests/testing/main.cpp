// The main() of the test programs.
#include <gtest/gtest.h>

#include "testing/with_arithmetic.h"

int main(int argc, char** argv) {
  return winnow::with_arithmetic(argv, [&] {
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  });
}

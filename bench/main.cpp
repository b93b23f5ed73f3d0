#include <benchmark/benchmark.h>

#include "testing/with_arithmetic.h"

int main(int argc, char** argv) {
  return winnow::with_arithmetic(argv, [&] {
    benchmark::AddCustomContext("arithmetic", winnow::current_arithmetic());
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
  });
}

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "winnow/base/arithmetic.h"
#include "winnow/base/error.h"

int main(int argc, char** argv) {
  try {
    winnow::adopt_arithmetic(winnow::default_arithmetic(), argv);
  } catch (const winnow::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return winnow::exit_code(error.kind());
  }
  benchmark::AddCustomContext("arithmetic", winnow::current_arithmetic());
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}

// The server's average, per client model added.
#include <benchmark/benchmark.h>

#include "winnow/federation/aggregation.h"
#include "winnow/model/net.h"

namespace winnow {
namespace {

void weighted_mean(benchmark::State& bench, const char* model, NetShape shape) {
  const State state = builtin_networks().find(model).make(shape)->weights().initial(1);
  WeightedMean mean;
  for (auto _ : bench) {
    mean.add(state, 100.0);
  }
  bench.SetBytesProcessed(bench.iterations() * state.bytes());
}

BENCHMARK_CAPTURE(weighted_mean, lenet5, "lenet5", NetShape{10, 1, 28, 28})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(weighted_mean, resnet18, "resnet18", NetShape{10, 3, 32, 32})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace winnow

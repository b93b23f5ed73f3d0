// Local training as a lane does it: one epoch of a small client.
#include <benchmark/benchmark.h>

#include <numeric>

#include "winnow/data/catalog.h"
#include "winnow/engine/threads.h"
#include "winnow/model/net.h"
#include "winnow/train/lane.h"

namespace winnow {
namespace {

void train_epoch(benchmark::State& bench, const char* model, std::int64_t channels,
                 std::int64_t size) {
  use_one_thread_per_operation();
  DataOptions options;
  options.name = "synthetic";
  options.samples = 200;
  options.test_samples = 10;
  options.channels = channels;
  options.size = size;
  const DataSet data = load(options, builtin_data_sets());
  const Feed feed(data.train.images, data.normalisation, 0, at::kCPU);
  const NetInfo& net = builtin_networks().find(model);
  const NetShape shape{data.classes, channels, size, size};
  Lane lane([&] { return net.make(shape); }, feed, false);
  const State start = net.make(shape)->weights().initial(1);
  std::vector<std::int64_t> samples(200);
  std::iota(samples.begin(), samples.end(), std::int64_t{0});
  TrainOptions train;
  train.epochs = 1;
  train.batch_size = bench.range(0);
  for (auto _ : bench) {
    benchmark::DoNotOptimize(
        lane.trainer().train(start, {samples, data.train.labels}, train, {}, {1, 0, 0}));
  }
  bench.SetItemsProcessed(bench.iterations() * 200);
}

BENCHMARK_CAPTURE(train_epoch, lenet5, "lenet5", 1, 28)
    ->Arg(10)
    ->Arg(50)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train_epoch, cnn4, "cnn4", 3, 32)
    ->Arg(10)
    ->Arg(50)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train_epoch, cnn2, "cnn2", 3, 32)->Arg(10)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace winnow

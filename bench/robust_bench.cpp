// The robust rules on 100 replies, per coordinate. The argument is the number of coordinates taken
// of ResNet-18's 11.2 million: the work grows with it in proportion, the memory of 100 whole models
// is not needed.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "winnow/base/random.h"
#include "winnow/federation/robust.h"
#include "winnow/federation/robust_arfl.h"
#include "winnow/federation/robust_distance.h"
#include "winnow/model/net.h"

namespace winnow {
namespace {

constexpr std::size_t kReplies = 100;

// ResNet-18's tensors, the first that make up `coordinates`, and clients around its start.
std::vector<State> replies(std::int64_t coordinates) {
  const State start = find_net("resnet18").make({10, 3, 32, 32})->weights().initial(1);
  std::vector<Slot> slots;
  std::int64_t left = coordinates;
  for (const Slot& slot : start.layout->slots()) {
    const std::int64_t size = std::min(slot.size, left);
    if (size > 0 && slot.kind == SlotKind::parameter) {
      slots.push_back({slot.name, {size}, slot.kind, 0, 0});
      left -= size;
    }
  }
  const auto layout = std::make_shared<const Layout>(std::move(slots));
  std::vector<State> models;
  for (std::size_t k = 0; k < kReplies; ++k) {
    Stream stream(1, "bench", k);
    State model = State::zeros(layout);
    const float* from = start.flat.data_ptr<float>();
    auto* to = model.flat.data_ptr<float>();
    for (std::int64_t i = 0; i < layout->total(); ++i) {
      to[i] = from[i] + 0.01F * static_cast<float>(stream.normal());
    }
    models.push_back(std::move(model));
  }
  return models;
}

template <typename Rule>
void run(benchmark::State& bench, const Rule& rule) {
  const std::vector<State> models = replies(bench.range(0));
  for (auto _ : bench) {
    rule(models);
  }
  bench.SetItemsProcessed(bench.iterations() * models.front().layout->total());
}

void median_of_100(benchmark::State& bench) {
  run(bench, [](const auto& models) { benchmark::DoNotOptimize(coordinate_median(models)); });
}

void krum_of_100(benchmark::State& bench) {
  run(bench, [](const auto& models) {
    benchmark::DoNotOptimize(krum_scores(squared_distances(models), 20));
  });
}

void bulyan_of_100(benchmark::State& bench) {
  run(bench, [](const auto& models) {
    const std::int64_t byzantine = 20;
    std::vector<State> selected;
    for (const std::int64_t place : bulyan_selection(squared_distances(models), byzantine)) {
      selected.push_back(models[static_cast<std::size_t>(place)]);
    }
    const std::int64_t keep = static_cast<std::int64_t>(selected.size()) - 2 * byzantine;
    benchmark::DoNotOptimize(mean_around_median(selected, keep));
  });
}

void geometric_median_of_100(benchmark::State& bench) {
  run(bench, [](const auto& models) {
    benchmark::DoNotOptimize(geometric_median(models, std::vector<double>(models.size(), 1.0)));
  });
}

void arfl_of_100(benchmark::State& bench) {
  run(bench, [](const auto& models) { benchmark::DoNotOptimize(arfl(models)); });
}

// Work runs on threads of its own, so only the wall clock tells.
BENCHMARK(median_of_100)->Arg(100'000)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(krum_of_100)->Arg(100'000)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(bulyan_of_100)->Arg(100'000)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(geometric_median_of_100)->Arg(100'000)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(arfl_of_100)->Arg(100'000)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace winnow

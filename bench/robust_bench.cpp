// The robust rules, per coordinate: --benchmark_filter=robust. The arguments are the number of
// replies and the number of coordinates taken of ResNet-18; the work grows with it in proportion.
// WINNOW_BENCH_WHOLE=1 takes all of them once, too, which needs 5 GB.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "winnow/base/random.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/robust/robust.h"
#include "winnow/federation/robust/robust_arfl.h"
#include "winnow/federation/robust/robust_distance.h"
#include "winnow/model/net.h"

namespace winnow {
namespace {

constexpr std::int64_t kPart = 100'000;
constexpr std::int64_t kWhole = 11'173'962;  // its parameters

std::vector<float> draw_noise() {
  std::vector<float> noise(std::size_t{1} << 20U);
  Stream stream(1, "bench");
  for (float& value : noise) {
    value = 0.01F * static_cast<float>(stream.normal());
  }
  return noise;
}

// ResNet-18's parameters, the first that make up `coordinates`, and clients around its start.
std::vector<State> make_replies(std::int64_t count, std::int64_t coordinates) {
  const State start =
      builtin_networks().find("resnet18").make({10, 3, 32, 32})->weights().initial(1);
  const auto layout = std::make_shared<const Layout>(
      std::vector<Slot>{{"w", {coordinates}, SlotKind::parameter, 0, 0}});
  const std::vector<float> noise = draw_noise();
  std::vector<State> models;
  for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k) {
    State model = State::zeros(layout);
    const float* from = start.flat.data_ptr<float>();
    auto* to = model.flat.data_ptr<float>();
    for (std::size_t i = 0; i < static_cast<std::size_t>(coordinates); ++i) {
      to[i] = from[i] + noise[(i + 10007 * k) % noise.size()];
    }
    models.push_back(std::move(model));
  }
  return models;
}

// Those of the last benchmark are kept, for neighbours share them.
const std::vector<State>& replies(std::int64_t count, std::int64_t coordinates) {
  static std::vector<State> models;
  if (std::ssize(models) != count || models.front().layout->total() != coordinates) {
    models.clear();
    models = make_replies(count, coordinates);
  }
  return models;
}

template <typename Rule>
void run(benchmark::State& bench, const Rule& rule) {
  const std::vector<State>& models = replies(bench.range(0), bench.range(1));
  for (auto _ : bench) {
    rule(models);
  }
  bench.SetItemsProcessed(bench.iterations() * models.front().layout->total());
}

void robust_median(benchmark::State& bench) {
  run(bench, [](const auto& models) { benchmark::DoNotOptimize(coordinate_median(models)); });
}

void robust_trimmed_mean(benchmark::State& bench) {
  run(bench, [](const auto& models) {
    const std::vector<double> factors(models.size(), 1.0);
    benchmark::DoNotOptimize(trimmed_mean(models, factors, std::ssize(models) / 5));
  });
}

// As the base of a method that weighs its clients.
void robust_trimmed_mean_weighted(benchmark::State& bench) {
  run(bench, [](const auto& models) {
    std::vector<double> factors(models.size(), 1.0);
    factors.front() = 0.5;
    benchmark::DoNotOptimize(trimmed_mean(models, factors, std::ssize(models) / 5));
  });
}

void robust_krum(benchmark::State& bench) {
  run(bench, [](const auto& models) {
    benchmark::DoNotOptimize(krum_scores(squared_distances(models), std::ssize(models) / 5));
  });
}

void robust_multi_krum(benchmark::State& bench) {
  run(bench, [](const auto& models) {
    const std::int64_t byzantine = std::ssize(models) / 5;
    const std::vector<double> scores = krum_scores(squared_distances(models), byzantine);
    WeightedMean mean;
    for (const std::int64_t place : lowest(scores, std::ssize(models) - byzantine)) {
      mean.add(models[static_cast<std::size_t>(place)], 1.0);
    }
    benchmark::DoNotOptimize(mean.finish());
  });
}

void robust_bulyan(benchmark::State& bench) {
  run(bench, [](const auto& models) {
    const std::int64_t byzantine = std::ssize(models) / 5;
    std::vector<State> selected;
    for (const std::int64_t place : bulyan_selection(squared_distances(models), byzantine)) {
      selected.push_back(models[static_cast<std::size_t>(place)]);
    }
    benchmark::DoNotOptimize(mean_around_median(selected, std::ssize(selected) - 2 * byzantine));
  });
}

void robust_geometric_median(benchmark::State& bench) {
  run(bench, [](const auto& models) {
    benchmark::DoNotOptimize(geometric_median(models, std::vector<double>(models.size(), 1.0)));
  });
}

void robust_arfl(benchmark::State& bench) {
  run(bench, [](const auto& models) { benchmark::DoNotOptimize(arfl(models)); });
}

// Work runs on threads of its own: the wall clock tells, and the CPU time of all threads.
void sizes(benchmark::internal::Benchmark* bench) {
  bench->Unit(benchmark::kMillisecond)->UseRealTime()->MeasureProcessCPUTime();
  for (const std::int64_t count : {20, 99, 100}) {
    bench->Args({count, kPart});
  }
  if (std::getenv("WINNOW_BENCH_WHOLE") != nullptr) {
    bench->Args({100, kWhole});
  }
}

BENCHMARK(robust_median)->Apply(sizes);
BENCHMARK(robust_trimmed_mean)->Apply(sizes);
BENCHMARK(robust_trimmed_mean_weighted)->Apply(sizes);
BENCHMARK(robust_krum)->Apply(sizes);
BENCHMARK(robust_multi_krum)->Apply(sizes);
BENCHMARK(robust_bulyan)->Apply(sizes);
BENCHMARK(robust_geometric_median)->Apply(sizes);
BENCHMARK(robust_arfl)->Apply(sizes);

}  // namespace
}  // namespace winnow

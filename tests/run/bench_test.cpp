#include "winnow/run/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "testing/errors.h"
#include "winnow/federation/selection.h"
#include "winnow/model/net.h"

namespace winnow::bench_test {

TEST(BenchJobs, AreNamedOnceAndMakeValidExperiments) {
  std::set<std::string> names;
  for (const BenchJob& job : bench_jobs()) {
    EXPECT_TRUE(names.insert(job.name).second) << job.name;
    EXPECT_EQ(&find_bench_job(job.name), &job);
    const Experiment experiment = bench_experiment(job);
    EXPECT_EQ(participants(experiment.federation.fraction, job.clients), job.cohort) << job.name;
    EXPECT_EQ(experiment.data.samples, job.clients * job.samples_per_client) << job.name;
    EXPECT_EQ(experiment.train.momentum, 0.0) << job.name;
  }
}

// The arithmetic of one forward pass, worked out by hand.
TEST(BenchJobs, StateTheMultiplyAddsOfTheirNetworks) {
  EXPECT_EQ(find_bench_job("lenet5-b10").macs, 416'520);
  EXPECT_EQ(find_bench_job("cnn4-b50").macs, 14'158'336);
  EXPECT_EQ(find_bench_job("cnn-all-b50").macs, 651'720);
  EXPECT_EQ(find_bench_job("pfl").macs, 16'835'200);
  EXPECT_EQ(find_bench_job("resnet18-b10").macs, 555'422'720);
  EXPECT_EQ(find_bench_job("vit_tiny-b10").macs, 1'253'493'120);
}

TEST(BenchJobs, AnUnknownNameGetsASuggestion) {
  EXPECT_EQ(error_text([] { find_bench_job("lenet-b10"); }),
            "unknown job 'lenet-b10' | did you mean 'lenet5-b10'?");
}

TEST(RunBench, CountsWholeRoundsAfterTheWarmUp) {
  const BenchJob job{.name = "tiny",
                     .model = "lenet5",
                     .batch = 4,
                     .clients = 5,
                     .samples_per_client = 6,
                     .cohort = 3,
                     .epochs = 2,
                     .macs = 416'520};
  const BenchResult result = run_bench(job, {.lanes = 2, .device = "cpu"}, 0.05);
  EXPECT_EQ(result.device, "cpu");
  EXPECT_EQ(result.precision, "fp32");
  EXPECT_EQ(result.lanes, 2);
  EXPECT_GE(result.rounds, 1);
  EXPECT_EQ(result.client_steps, result.rounds * 3 * 2 * 2);  // 6 samples are batches of 4 and 2
  EXPECT_EQ(result.samples, result.rounds * 3 * 2 * 6);
  EXPECT_GE(result.seconds, 0.05);
  EXPECT_DOUBLE_EQ(result.steps_per_second() * 3, result.samples_per_second());
  EXPECT_GT(result.peak_memory_mb, 1.0);
  EXPECT_DOUBLE_EQ(result.images_mb, 30 * 28 * 28 / 1048576.0);
  EXPECT_GT(result.overhead_ms, 0.0);
  EXPECT_LT(result.overhead_ms, 1e3 * result.seconds);
  EXPECT_GT(result.server_cpu_ms, 0.0);
  EXPECT_GT(result.checkpoint_seconds, 0.0);
  EXPECT_LT(result.checkpoint_cpu_seconds, result.checkpoint_seconds + 0.01);
  EXPECT_EQ(result.speeds.size(), 1U);
  EXPECT_DOUBLE_EQ(result.steps_per_second(),
                   static_cast<double>(result.client_steps) / result.seconds);
  EXPECT_EQ(result.ceiling_batch, 512);
  EXPECT_DOUBLE_EQ(result.ceiling_steps() * 3, result.ceiling_samples);
  EXPECT_DOUBLE_EQ(result.ceiling_share(), result.samples_per_second() / result.ceiling_samples);
  EXPECT_GT(result.peak_gflops, 0.1);
  EXPECT_DOUBLE_EQ(result.peak_share,
                   result.samples_per_second() * 6 * 416'520 / (result.peak_gflops * 1e9));
}

TEST(MiddleOf, IsTheMedian) {
  EXPECT_EQ(middle_of({3.0}), 3.0);
  EXPECT_EQ(middle_of({5.0, 1.0, 3.0}), 3.0);
  EXPECT_EQ(middle_of({4.0, 1.0, 2.0, 9.0}), 3.0);
}

TEST(SpreadOf, IsTheRangeOverTheMedian) {
  EXPECT_EQ(spread_of({3.0}), 0.0);
  EXPECT_EQ(spread_of({5.0, 2.0, 4.0}), 0.75);
}

TEST(Bench, AddsUpWhatItMeasuresInParts) {
  const BenchJob job{.name = "tiny",
                     .model = "lenet5",
                     .batch = 3,
                     .clients = 2,
                     .samples_per_client = 3,
                     .cohort = 2,
                     .big_batch = 8};
  Bench bench(job, {.lanes = 1, .device = "cpu"});
  bench.measure(0.0);
  bench.measure(0.0);
  const BenchResult result = bench.finish();
  EXPECT_EQ(result.rounds, 2);
  EXPECT_EQ(result.client_steps, 4);
  EXPECT_EQ(result.samples, 12);
  ASSERT_EQ(result.speeds.size(), 2U);
  EXPECT_DOUBLE_EQ(2.0 / result.speeds[0] + 2.0 / result.speeds[1], result.seconds);
  EXPECT_EQ(result.ceiling_batch, 8);
}

TEST(RunBench, PlaysOneMeasuredRoundHoweverShortTheTime) {
  const BenchJob job{
      .name = "tiny", .model = "lenet5", .clients = 2, .samples_per_client = 3, .cohort = 1};
  EXPECT_EQ(run_bench(job, {.lanes = 1, .device = "cpu"}, 0.0).rounds, 1);
}

}  // namespace winnow::bench_test

// How fast whole rounds are: training steps per second on synthetic data, and which share of the
// machine's own speed that is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/run/session.h"

namespace winnow {

// Plain SGD on images of one shape; every client holds the same number of samples.
struct BenchJob {
  std::string name;
  std::string model;
  std::int64_t channels = 1;
  std::int64_t size = 28;  // height and width of an image
  std::int64_t batch = 10;
  std::int64_t clients = 100;
  std::int64_t samples_per_client = 100;
  std::int64_t cohort = 10;  // clients that take part in a round
  std::int64_t epochs = 1;
  double lr = 0.01;
  double macs = 0.0;  // multiply-adds of the forward pass of one sample
  std::string method = "fedavg";

  // The peer does FedAvg, and has every image of every client in memory as numbers.
  bool has_peer() const { return method == "fedavg" && clients <= 10'000; }
};

// All jobs, in the order `winnow bench --list` shows them.
const std::vector<BenchJob>& bench_jobs();
// Throws Error(kind usage) with a suggestion for an unknown name.
const BenchJob& find_bench_job(const std::string& name);

// The experiment of a job: it goes on for as long as one plays, and never evaluates.
Experiment bench_experiment(const BenchJob& job);

struct BenchResult {
  std::string device;
  std::string precision;
  std::string arithmetic;  // of the CPU
  std::string fingerprint;
  std::int64_t lanes = 0;  // of all ranks
  std::int64_t ranks = 1;
  std::int64_t bytes_received = 0;  // by rank 0 from the others, in the measured rounds
  std::int64_t rounds = 0;          // measured ones
  std::int64_t client_steps = 0;
  std::int64_t samples = 0;
  double seconds = 0.0;
  double peak_memory_mb = 0.0;    // of the process that leads, resident, while the job ran
  double device_memory_mb = 0.0;  // of a GPU, at most, without the context
  double images_mb = 0.0;         // of it the images
  // What a round takes beside waiting for its clients and adding up their replies: the median of
  // the measured rounds in wall time, and the mean of this thread's CPU time, which has the adding
  // in it but no other process.
  double overhead_ms = 0.0;
  double server_cpu_ms = 0.0;
  // Of a checkpoint after one more round, the whole run being in an earlier one: wall time until it
  // is on the disk, and CPU time. Nothing with several ranks.
  double checkpoint_seconds = 0.0;
  double checkpoint_cpu_seconds = 0.0;
  double peak_gflops = 0.0;  // of matrix products on the same device, by as many lanes
  double peak_share = 0.0;   // useful arithmetic of training / peak

  double steps_per_second() const { return static_cast<double>(client_steps) / seconds; }
  double samples_per_second() const { return static_cast<double>(samples) / seconds; }
};

// Plays one round to warm up, then whole rounds until `seconds` have passed, at least one, and
// measures the speed of matrix products right after them, then a checkpoint in a temporary folder.
BenchResult run_bench(const BenchJob& job, const Runtime& runtime, double seconds);

}  // namespace winnow

// How fast whole rounds are: training steps per second on synthetic data, and which share that is
// of the machine's own speed and of what the same network reaches with large batches.
#pragma once

#include <cstdint>
#include <memory>
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
  // Of the measurement with large batches on a CPU, where a lane's memory is the limit.
  std::int64_t big_batch = 512;

  // The peer does FedAvg, and has every image of every client in memory as numbers.
  bool has_peer() const { return method == "fedavg" && clients <= 10'000; }
};

// The value in the middle, or the mean of the two there. Not of nothing.
double middle_of(std::vector<double> values);
// How far the values are apart: the largest less the smallest, as a share of the median.
double spread_of(const std::vector<double>& values);

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
  // Of all measurements together:
  std::int64_t rounds = 0;
  std::int64_t client_steps = 0;
  std::int64_t samples = 0;
  double seconds = 0.0;
  std::vector<double> speeds;     // client steps per second of each of them
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
  // Training of the same network with large batches, on a CPU by as many lanes, on a GPU by one
  // lane: samples per second while clients train. Nothing with several ranks, or where even the
  // job's own batch did not fit.
  std::int64_t ceiling_batch = 0;
  double ceiling_samples = 0.0;

  // The median of the measurements.
  double steps_per_second() const { return middle_of(speeds); }
  double samples_per_second() const { return steps_per_second() * samples_of_a_step(); }
  // The ceiling in steps of the job's batches, and the share of it that was reached.
  double ceiling_steps() const { return ceiling_samples / samples_of_a_step(); }
  double ceiling_share() const { return samples_per_second() / ceiling_samples; }

 private:
  double samples_of_a_step() const {
    return static_cast<double>(samples) / static_cast<double>(client_steps);
  }
};

// A job that is measured now and then, so that something else can be measured in between. Belongs
// to the thread that made it.
class Bench {
 public:
  // Prepares the job, and plays rounds to warm up.
  Bench(const BenchJob& job, const Runtime& runtime);

  // Plays whole rounds until `seconds` have passed, at least one.
  void measure(double seconds);
  // Measures what else there is to know: the speed of matrix products, a checkpoint in a temporary
  // folder, and large batches. To be called once, after the last measure().
  BenchResult finish();

  at::Device device() const { return session_->engine().workforce().device; }
  // Of what has been measured so far.
  const BenchResult& result() const { return result_; }

 private:
  void measure_ceiling();

  BenchJob job_;
  Runtime runtime_;
  std::unique_ptr<Session> session_;
  BenchResult result_;
  std::vector<double> overheads_;
  double cpu_seconds_ = 0.0;
  std::int64_t bytes_before_ = 0;
};

// All of it with a single measurement.
BenchResult run_bench(const BenchJob& job, const Runtime& runtime, double seconds);

}  // namespace winnow

#include "winnow/run/bench.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <malloc.h>
#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>

#include "winnow/base/arithmetic.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/engine/fingerprint.h"
#include "winnow/engine/threads.h"
#include "winnow/method/method.h"
#include "winnow/run/checkpoint.h"
#include "winnow/train/gpu/gpu_trainer.h"

namespace winnow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kEndless = 1'000'000'000;  // rounds
constexpr double kProbeSeconds = 0.3;

// A multiply-add is two operations; the backward pass takes twice the forward pass.
constexpr double kFlopsPerMac = 2.0 * 3.0;

// Multiply-adds of a convolution whose output is `side` x `side`.
constexpr double conv(double side, double out, double kernel, double in) {
  return side * side * out * kernel * kernel * in;
}

// Layer by layer, as the networks stand in model/zoo; norms, pooling and activations not counted.
constexpr double kLenet5 =  // 1x28x28
    conv(28, 6, 5, 1) + conv(10, 16, 5, 6) + 400 * 120 + 120 * 84 + 84 * 10;
constexpr double kLenet5Rgb =  // 3x32x32
    conv(28, 6, 5, 3) + conv(10, 16, 5, 6) + 400 * 120 + 120 * 84 + 84 * 10;
constexpr double kCnn4 =  // 3x32x32
    conv(32, 64, 3, 3) + conv(16, 64, 3, 64) + conv(8, 64, 3, 64) + conv(4, 64, 3, 64) + 256 * 10;
constexpr double kCnn2 =  // 3x32x32
    conv(30, 32, 3, 3) + conv(28, 64, 3, 32) + 12'544 * 128 + 128 * 10;
// A stage that halves the map and doubles the width costs the same as the one before it.
constexpr double kResnetStage =
    conv(16, 128, 3, 64) + 3 * conv(16, 128, 3, 128) + conv(16, 128, 1, 64);
constexpr double kResnet18 =  // 3x32x32
    conv(32, 64, 3, 3) + 4 * conv(32, 64, 3, 64) + 3 * kResnetStage + 512 * 10;
// 197 tokens of width 192: qkv and projection, two products of attention, perceptron.
constexpr double kVitBlock =
    197 * 192 * (3 * 192 + 192) + 2 * 197 * 197 * 192 + 2 * 197 * 192 * (4 * 192);
constexpr double kVitTiny =  // 3x224x224
    conv(14, 192, 16, 3) + 12 * kVitBlock + 192 * 10;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The counter of peak memory starts anew, where the kernel allows it. What an earlier job left in
// the allocator's hands is given back first; what LibTorch caches for good still counts.
void reset_peak_memory() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
}

// Not getrusage(): its maximum cannot be reset, and outlives exec().
double peak_memory_mb() {
  constexpr std::string_view kKey = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kKey)) {
      return std::stod(line.substr(kKey.size())) / 1024.0;
    }
  }
  return 0.0;
}

// CPU time of this thread.
double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Saves the run, plays a round and saves again; only the latter is measured.
void measure_checkpoint(Session& session, BenchResult& result) {
  const std::filesystem::path folder =
      temporary_beside(std::filesystem::temp_directory_path() / "winnow_bench");
  CheckpointWriter writer(folder);
  const auto save = [&] {
    session.save_changes(writer.log());
    writer.save(session.head());
  };
  save();
  session.play();
  const auto start = Clock::now();
  const double cpu = thread_seconds();
  save();
  result.checkpoint_seconds = seconds_since(start);
  result.checkpoint_cpu_seconds = thread_seconds() - cpu;
  std::error_code ignored;
  remove_tree(folder, ignored);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Products of square matrices on one thread, in GFLOP/s.
double product_gflops(at::Device device, at::ScalarType type) {
  keep_one_thread_per_operation();
  const std::int64_t side = device.is_cpu() ? 1024 : 8192;
  const at::Tensor matrix = at::rand({side, side}, at::kFloat).to(device, type);
  const auto wait = [device] {
    if (device.is_cuda()) {
      torch::cuda::synchronize(device.index());
    }
  };
  at::Tensor product = at::mm(matrix, matrix);
  wait();
  const auto start = Clock::now();
  int count = 0;
  do {
    at::mm_out(product, matrix, matrix);
    wait();
    ++count;
  } while (seconds_since(start) < kProbeSeconds);
  const auto edge = static_cast<double>(side);
  return 2.0 * edge * edge * edge * count / seconds_since(start) / 1e9;
}

// What all lanes together reach. A GPU is one device however many lanes feed it.
double peak_gflops(at::Device device, std::int64_t lanes, Precision precision) {
  const at::ScalarType type = precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
  std::vector<std::future<double>> threads;
  for (std::int64_t lane = 0; lane < (device.is_cpu() ? lanes : 1); ++lane) {
    threads.push_back(std::async(std::launch::async, product_gflops, device, type));
  }
  double sum = 0.0;
  for (std::future<double>& thread : threads) {
    sum += thread.get();
  }
  return sum;
}

}  // namespace

const std::vector<BenchJob>& bench_jobs() {
  // name, model, channels, size, batch, clients, samples per client, cohort, epochs, lr, macs
  static const std::vector<BenchJob> jobs{
      {"lenet5-b10", "lenet5", 1, 28, 10, 50, 600, 10, 1, 0.01, kLenet5},
      {"cnn4-b10", "cnn4", 3, 32, 10, 100, 500, 10, 1, 0.01, kCnn4},
      {"cnn4-b50", "cnn4", 3, 32, 50, 100, 500, 10, 1, 0.01, kCnn4},
      {"resnet18-b10", "resnet18", 3, 32, 10, 20, 200, 10, 1, 0.01, kResnet18},
      {"vit_tiny-b10", "vit_tiny", 3, 32, 10, 20, 100, 10, 1, 0.01, kVitTiny},
      {"pfl", "cnn2", 3, 32, 10, 1000, 50, 50, 1, 0.1, kCnn2},
      {"clients-100", "lenet5", 1, 28, 10, 100, 6, 100, 1, 0.01, kLenet5},
      {"clients-1000", "lenet5", 1, 28, 10, 1000, 6, 100, 1, 0.01, kLenet5},
      {"clients-10000", "lenet5", 1, 28, 10, 10'000, 6, 100, 1, 0.01, kLenet5},
      {"clients-1000000", "lenet5", 1, 28, 10, 1'000'000, 6, 10, 1, 0.01, kLenet5},
      {"stateful-100000", "lenet5", 1, 28, 10, 100'000, 6, 10, 1, 0.01, kLenet5, "scaffold"},
      // 5 rounds of it are 25,000 steps.
      {"cnn-all-b50", "lenet5", 3, 32, 50, 100, 500, 100, 5, 0.01, kLenet5Rgb},
  };
  return jobs;
}

const BenchJob& find_bench_job(const std::string& name) {
  const auto found = std::ranges::find(bench_jobs(), name, &BenchJob::name);
  if (found != bench_jobs().end()) {
    return *found;
  }
  std::vector<std::string> known;
  for (const BenchJob& job : bench_jobs()) {
    known.push_back(job.name);
  }
  throw Error(ErrorKind::usage, fmt::format("unknown job '{}'", name), suggestion(name, known));
}

Experiment bench_experiment(const BenchJob& job) {
  const Json tree{
      {"name", job.name},
      {"rounds", kEndless},
      {"eval_every", kEndless},
      {"data",
       {{"name", "synthetic"},
        {"samples", job.clients * job.samples_per_client},
        {"test_samples", 10},
        {"channels", job.channels},
        {"size", job.size},
        {"augment", "off"}}},
      {"federation",
       {{"clients", job.clients},
        {"fraction", static_cast<double>(job.cohort) / static_cast<double>(job.clients)}}},
      {"model", {{"name", job.model}}},
      {"train",
       {{"epochs", job.epochs}, {"batch_size", job.batch}, {"lr", job.lr}, {"momentum", 0.0}}},
      {"method", {{"name", job.method}}}};
  return parse_experiment(tree, builtin_registry());
}

BenchResult run_bench(const BenchJob& job, const Runtime& runtime, double seconds) {
  reset_peak_memory();
  Session session(bench_experiment(job), builtin_registry(), runtime, nullptr);
  reset_peak_device_memory(session.crew().device());  // what the session holds counts
  const at::Device device = session.crew().device();
  // A GPU lane captures a kind of step when it meets it for the second time, and the number of
  // lanes may still be looked for.
  const int warm_up = device.is_cuda() ? 5 : 1;
  for (int round = 0; round < warm_up || !session.crew().lanes_settled(); ++round) {
    session.play();
  }
  const Traffic before = session.engine().traffic();
  const Workforce force_before = session.engine().workforce();
  BenchResult result;
  std::vector<double> overheads;
  const auto start = Clock::now();
  const double cpu = thread_seconds();
  do {
    const double trained = session.engine().traffic().train_seconds;
    const double begun = result.seconds;
    session.play();
    ++result.rounds;
    result.seconds = seconds_since(start);
    overheads.push_back(result.seconds - begun -
                        (session.engine().traffic().train_seconds - trained));
  } while (result.seconds < seconds);
  result.overhead_ms = 1e3 * median(overheads);
  result.server_cpu_ms = 1e3 * (thread_seconds() - cpu) / static_cast<double>(result.rounds);
  const Traffic& after = session.engine().traffic();
  result.client_steps = after.client_steps - before.client_steps;
  result.samples =
      (after.participations - before.participations) * job.samples_per_client * job.epochs;
  result.peak_memory_mb = peak_memory_mb();
  result.device_memory_mb = static_cast<double>(peak_device_memory(device)) / 1048576.0;
  result.images_mb = static_cast<double>(session.world().data.train.images.nbytes()) / 1048576.0;

  const Precision precision = choose_precision(runtime.precision, device);
  result.device = device.str();
  result.precision = precision_name(precision);
  result.arithmetic = current_arithmetic();
  result.fingerprint = fingerprint();
  const Workforce force = session.engine().workforce();
  result.lanes = force.lanes;
  result.ranks = force.ranks;
  result.bytes_received = force.bytes_received - force_before.bytes_received;
  // Of this process, for as many lanes as all of them have.
  const std::int64_t own_lanes = session.crew().lanes();
  result.peak_gflops =
      peak_gflops(device, own_lanes, precision) *
      (device.is_cpu() ? static_cast<double>(force.lanes) / static_cast<double>(own_lanes)
                       : static_cast<double>(force.ranks));
  result.peak_share =
      result.samples_per_second() * job.macs * kFlopsPerMac / (result.peak_gflops * 1e9);
  if (force.ranks == 1) {
    measure_checkpoint(session, result);
  }
  return result;
}

}  // namespace winnow

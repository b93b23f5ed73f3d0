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
#include <new>
#include <string_view>

#include "winnow/base/arithmetic.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/engine/fingerprint.h"
#include "winnow/engine/threads.h"
#include "winnow/method/method.h"
#include "winnow/run/checkpoint.h"
#include "winnow/train/gpu/device.h"

namespace winnow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kEndless = 1'000'000'000;  // rounds
constexpr double kProbeSeconds = 0.3;
constexpr double kCeilingSeconds = 0.5;  // at most, but at least one round
constexpr std::int64_t kGpuBatch = 512;
constexpr std::int64_t kStepsOfGraph = 10;  // as many as a GPU lane replays at once

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

// A GPU lane captures a kind of step when it meets it for the second time, and the number of lanes
// may still be looked for.
void warm_up(Session& session) {
  const Engine& engine = session.engine();
  const int rounds = engine.workforce().device.is_cuda() ? 5 : 1;
  for (int round = 0; round < rounds || !engine.workforce().settled; ++round) {
    session.play();
  }
}

// Samples per second while the clients of a job train.
double training_speed(const BenchJob& job, const Runtime& runtime, double at_least) {
  Session session(bench_experiment(job), builtin_registry(), runtime, nullptr);
  warm_up(session);
  const double before = session.engine().traffic().train_seconds;
  std::int64_t samples = 0;
  double seconds = 0.0;
  do {
    session.play();
    samples += job.cohort * job.samples_per_client;
    seconds = session.engine().traffic().train_seconds - before;
  } while (seconds < at_least);
  return static_cast<double>(samples) / seconds;
}

// LibTorch has no type of its own for it on a CPU.
bool is_out_of_memory(const std::exception& error) {
  const std::string_view text = error.what();
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         text.find("allocate memory") != std::string_view::npos ||
         text.find("out of memory") != std::string_view::npos;
}

}  // namespace

const std::vector<BenchJob>& bench_jobs() {
  // name, model, channels, size, batch, clients, samples per client, cohort, epochs, lr, macs,
  // method, large batch
  static const std::vector<BenchJob> jobs{
      {"lenet5-b10", "lenet5", 1, 28, 10, 50, 600, 10, 1, 0.01, kLenet5},
      {"cnn4-b10", "cnn4", 3, 32, 10, 100, 500, 10, 1, 0.01, kCnn4},
      {"cnn4-b50", "cnn4", 3, 32, 50, 100, 500, 10, 1, 0.01, kCnn4},
      {"resnet18-b10", "resnet18", 3, 32, 10, 20, 200, 10, 1, 0.01, kResnet18, "fedavg", 64},
      {"vit_tiny-b10", "vit_tiny", 3, 32, 10, 20, 100, 10, 1, 0.01, kVitTiny, "fedavg", 16},
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

double middle_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

double spread_of(const std::vector<double>& values) {
  const auto [least, most] = std::ranges::minmax(values);
  return (most - least) / middle_of(values);
}

Bench::Bench(const BenchJob& job, const Runtime& runtime) : job_(job), runtime_(runtime) {
  reset_peak_memory();
  session_ = std::make_unique<Session>(bench_experiment(job), builtin_registry(), runtime, nullptr);
  reset_peak_device_memory(device());  // what the session holds counts
  warm_up(*session_);
  bytes_before_ = session_->engine().workforce().bytes_received;
}

void Bench::measure(double seconds) {
  const Engine& engine = session_->engine();
  const Traffic before = engine.traffic();
  const auto start = Clock::now();
  const double cpu = thread_seconds();
  double passed = 0.0;
  do {
    const double trained = engine.traffic().train_seconds;
    const double begun = passed;
    session_->play();
    ++result_.rounds;
    passed = seconds_since(start);
    overheads_.push_back(passed - begun - (engine.traffic().train_seconds - trained));
  } while (passed < seconds);
  cpu_seconds_ += thread_seconds() - cpu;
  const Traffic& after = engine.traffic();
  const std::int64_t steps = after.client_steps - before.client_steps;
  result_.client_steps += steps;
  result_.samples +=
      (after.participations - before.participations) * job_.samples_per_client * job_.epochs;
  result_.seconds += passed;
  result_.speeds.push_back(static_cast<double>(steps) / passed);
}

BenchResult Bench::finish() {
  result_.overhead_ms = 1e3 * middle_of(overheads_);
  result_.server_cpu_ms = 1e3 * cpu_seconds_ / static_cast<double>(result_.rounds);
  result_.peak_memory_mb = peak_memory_mb();
  const at::Device place = device();
  result_.device_memory_mb = static_cast<double>(peak_device_memory(place)) / 1048576.0;
  result_.images_mb = static_cast<double>(session_->world().data.train.images.nbytes()) / 1048576.0;

  const Precision precision = choose_precision(runtime_.precision, place);
  result_.device = place.str();
  result_.precision = precision_name(precision);
  result_.arithmetic = current_arithmetic();
  result_.fingerprint = fingerprint();
  const Workforce force = session_->engine().workforce();
  result_.lanes = force.lanes;
  result_.ranks = force.ranks;
  result_.bytes_received = force.bytes_received - bytes_before_;
  // Of this process, for as many lanes as all of them have.
  result_.peak_gflops =
      peak_gflops(place, force.own_lanes, precision) *
      (place.is_cpu() ? static_cast<double>(force.lanes) / static_cast<double>(force.own_lanes)
                      : static_cast<double>(force.ranks));
  result_.peak_share =
      result_.samples_per_second() * job_.macs * kFlopsPerMac / (result_.peak_gflops * 1e9);
  if (force.ranks == 1) {
    measure_checkpoint(*session_, result_);
    session_.reset();
    measure_ceiling();
  }
  return result_;
}

// By whole rounds as well, but without what a round takes beside training: many clients could share
// it.
void Bench::measure_ceiling() {
  const at::Device place = choose_device(runtime_.device);
  Runtime runtime = runtime_;
  runtime.lanes = place.is_cpu() ? result_.lanes : 1;
  BenchJob big = job_;
  big.method = "fedavg";
  big.epochs = 1;
  big.clients = runtime.lanes;
  big.cohort = runtime.lanes;
  const std::int64_t steps = place.is_cpu() ? 1 : kStepsOfGraph;
  for (big.batch = place.is_cpu() ? job_.big_batch : kGpuBatch; big.batch >= job_.batch;
       big.batch /= 2) {
    big.samples_per_client = steps * big.batch;
    try {
      result_.ceiling_samples =
          training_speed(big, runtime, std::min(kCeilingSeconds, result_.seconds));
      result_.ceiling_batch = big.batch;
      return;
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) {
        throw;
      }
    }
  }
}

BenchResult run_bench(const BenchJob& job, const Runtime& runtime, double seconds) {
  Bench bench(job, runtime);
  bench.measure(seconds);
  return bench.finish();
}

}  // namespace winnow

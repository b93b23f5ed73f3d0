// `winnow bench`: Winnow and a plain PyTorch loop do the same work, one after the other.
#include <fmt/format.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "winnow/base/child.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/cli/engine_choice.h"
#include "winnow/run/bench.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

struct BenchFlags {
  std::vector<std::string> jobs{"lenet5-b10", "cnn4-b10", "cnn4-b50"};
  double seconds = 5.0;
  std::string peer = "bench/peer/fedavg.py";
  std::string python = "python3";
  std::vector<std::string> peer_arguments;
  bool list = false;
  bool json = false;
  RuntimeFlags runtime;
};

// What the peer printed, or why there is nothing.
struct PeerResult {
  Json report;
  std::string missing;
};

struct Row {
  BenchJob job;
  BenchResult ours;
  PeerResult peer;

  // Ours over the peer's, null without a peer.
  Json ratio() const {
    return peer.report.is_null()
               ? Json()
               : Json(ours.steps_per_second() / peer.report.at("steps_per_second").get<double>());
  }
};

std::vector<std::string> peer_arguments(const BenchFlags& flags, const BenchJob& job,
                                        const BenchResult& ours) {
  std::vector<std::string> words{flags.peer};
  const auto add = [&](const std::string& name, const auto& value) {
    words.push_back(name);
    words.push_back(fmt::format("{}", value));
  };
  add("--job", job.name);
  add("--model", job.model);
  add("--channels", job.channels);
  add("--size", job.size);
  add("--batch", job.batch);
  add("--clients", job.clients);
  add("--samples-per-client", job.samples_per_client);
  add("--cohort", job.cohort);
  add("--epochs", job.epochs);
  add("--lr", job.lr);
  add("--device", ours.device);
  add("--seconds", flags.seconds);
  if (ours.precision != "fp32") {
    words.push_back("--" + ours.precision);
  }
  words.insert(words.end(), flags.peer_arguments.begin(), flags.peer_arguments.end());
  return words;
}

// Reads the peer's line of JSON among whatever else it printed, warnings for instance.
PeerResult read_peer(const std::string& printed, int code, const std::string& python) {
  if (code == 127) {
    return {{}, fmt::format("cannot start '{}'", python)};
  }
  std::string last_words;
  for (const std::string& line : split(printed, '\n')) {
    Json report = parse_json_or_null(line);
    if (code == 0 && report.is_object() && report.contains("steps_per_second")) {
      return {std::move(report), ""};
    }
    if (const std::string_view text = trim(line); !text.empty()) {
      last_words = text;
    }
  }
  return {{}, fmt::format("it ended with exit code {}: {}", code, last_words)};
}

PeerResult run_peer(const BenchFlags& flags, const BenchJob& job, const BenchResult& ours) {
  if (!fs::exists(flags.peer)) {
    return {{}, fmt::format("{} does not exist; name it with --peer PATH", flags.peer)};
  }
  const fs::path log = fs::temp_directory_path() / fmt::format("winnow_bench_{}.log", ::getpid());
  const pid_t child = start_program(flags.python, peer_arguments(flags, job, ours), log);
  std::optional<int> code;
  while (!(code = poll_child(child))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::string printed = read_file(log);
  fs::remove(log);
  return read_peer(printed, *code, flags.python);
}

// One line that the next one replaces; nothing where nobody watches.
void show(const BenchFlags& flags, const std::string& text) {
  if (!flags.runtime.quiet && stderr_is_terminal()) {
    tell(fmt::format("\r\033[K{}", text));
  }
}

std::vector<Row> measure(const BenchFlags& flags) {
  std::vector<BenchJob> jobs;
  for (const std::string& name : flags.jobs) {
    jobs.push_back(find_bench_job(name));
  }
  std::vector<Row> rows;
  for (const BenchJob& job : jobs) {
    show(flags, fmt::format("{}: winnow", job.name));
    const BenchResult ours = run_bench(job, flags.runtime.runtime, flags.seconds);
    show(flags, fmt::format("{}: peer", job.name));
    rows.push_back({job, ours,
                    job.has_peer() ? run_peer(flags, job, ours)
                                   : PeerResult{{}, job.name + " is not the peer's"}});
  }
  show(flags, "");
  return rows;
}

void print_list(bool json) {
  std::vector<std::vector<std::string>> rows{{"job", "method", "model", "images", "batch",
                                              "clients", "samples", "cohort", "epochs", "lr"}};
  Json list = Json::array();
  for (const BenchJob& job : bench_jobs()) {
    rows.push_back({job.name, job.method, job.model,
                    fmt::format("{}x{}x{}", job.channels, job.size, job.size),
                    fmt::format("{}", job.batch), fmt::format("{}", job.clients),
                    fmt::format("{}", job.samples_per_client), fmt::format("{}", job.cohort),
                    fmt::format("{}", job.epochs), fmt::format("{}", job.lr)});
    list.push_back({{"job", job.name},
                    {"method", job.method},
                    {"model", job.model},
                    {"channels", job.channels},
                    {"size", job.size},
                    {"batch", job.batch},
                    {"clients", job.clients},
                    {"samples_per_client", job.samples_per_client},
                    {"cohort", job.cohort},
                    {"epochs", job.epochs},
                    {"lr", job.lr},
                    {"macs", job.macs}});
  }
  fmt::print("{}", json ? list.dump(2) + "\n" : columns(rows, 200));
}

Json to_json(const Row& row) {
  const BenchResult& ours = row.ours;
  Json json{{"job", row.job.name},
            {"ratio", row.ratio()},
            {"winnow",
             {{"device", ours.device},
              {"precision", ours.precision},
              {"arithmetic", ours.arithmetic},
              {"fingerprint", ours.fingerprint},
              {"lanes", ours.lanes},
              {"ranks", ours.ranks},
              {"bytes_received", ours.bytes_received},
              {"libtorch", TORCH_VERSION},
              {"rounds", ours.rounds},
              {"client_steps", ours.client_steps},
              {"samples", ours.samples},
              {"seconds", ours.seconds},
              {"steps_per_second", ours.steps_per_second()},
              {"samples_per_second", ours.samples_per_second()},
              {"peak_memory_mb", ours.peak_memory_mb},
              {"device_memory_mb", ours.device_memory_mb},
              {"images_mb", ours.images_mb},
              {"overhead_ms", ours.overhead_ms},
              {"server_cpu_ms", ours.server_cpu_ms},
              {"checkpoint_seconds", ours.checkpoint_seconds},
              {"checkpoint_cpu_seconds", ours.checkpoint_cpu_seconds},
              {"peak_gflops", ours.peak_gflops},
              {"peak_share", ours.peak_share}}},
            {"peer", row.peer.report}};
  if (!row.peer.missing.empty()) {
    json["peer_missing"] = row.peer.missing;
  }
  return json;
}

std::string megabytes(double value) {
  return fmt::format("{:.0f} MB", value);
}

void print_table(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> cells{{"job", "steps/s", "peer steps/s", "ratio",
                                               "samples/s", "of peak", "memory", "on GPU", "images",
                                               "peer memory", "overhead", "checkpoint"}};
  for (const Row& row : rows) {
    const auto of_peer = [&](const char* key, const char* format) {
      return row.peer.report.is_null()
                 ? std::string("-")
                 : fmt::format(fmt::runtime(format), row.peer.report.value(key, 0.0));
    };
    const Json ratio = row.ratio();
    cells.push_back(
        {row.job.name, fmt::format("{:.1f}", row.ours.steps_per_second()),
         of_peer("steps_per_second", "{:.1f}"),
         ratio.is_null() ? "-" : fmt::format("{:.2f}", ratio.get<double>()),
         fmt::format("{:.0f}", row.ours.samples_per_second()),
         fmt::format("{:.1f} %", 100.0 * row.ours.peak_share), megabytes(row.ours.peak_memory_mb),
         row.ours.device_memory_mb > 0.0 ? megabytes(row.ours.device_memory_mb) : "-",
         megabytes(row.ours.images_mb), of_peer("peak_memory_mb", "{:.0f} MB"),
         fmt::format("{:.2f} ms", row.ours.overhead_ms),
         row.ours.ranks > 1 ? "-" : fmt::format("{:.3f} s", row.ours.checkpoint_seconds)});
  }
  fmt::print("{}", columns(cells, 200));
}

// What the numbers were made with, each thing said once.
void print_notes(const std::vector<Row>& rows) {
  const BenchResult& ours = rows.front().ours;
  double peak = 0.0;
  std::vector<std::string> notes;
  for (const Row& row : rows) {
    peak = std::max(peak, row.ours.peak_gflops);
    const Json& report = row.peer.report;
    notes.push_back(report.is_null()
                        ? fmt::format("no peer: {}", row.peer.missing)
                        : fmt::format("peer: torch {}, {}, {}, threads {}",
                                      report.value("torch", "?"), report.value("device", "?"),
                                      report.value("precision", "?"), report.value("threads", 0)));
  }
  fmt::print("winnow: LibTorch {}, {}, {}, lanes {}; matrix products reach {:.0f} GFLOP/s\n",
             TORCH_VERSION, ours.device, ours.precision, ours.lanes, peak);
  fmt::print("arithmetic of both: {}, fingerprint {}\n", ours.arithmetic, ours.fingerprint);
  for (auto note = notes.begin(); note != notes.end(); ++note) {
    if (std::find(notes.begin(), note, *note) == note) {
      fmt::print("{}\n", *note);
    }
  }
}

void bench(BenchFlags& flags, Program& program) {
  if (flags.list) {
    print_list(flags.json);
    return;
  }
  if (!leads(program, flags.runtime.runtime, nullptr)) {
    return;
  }
  const std::vector<Row> rows = measure(flags);
  if (flags.json) {
    Json list = Json::array();
    std::ranges::transform(rows, std::back_inserter(list), to_json);
    fmt::print("{}\n", list.dump(2));
    return;
  }
  print_table(rows);
  print_notes(rows);
}

}  // namespace

void add_bench_command(CLI::App& app, Program& program) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command =
      app.add_subcommand("bench", "compare training speed with a plain PyTorch loop");
  command->add_option("--job", flags->jobs, "job to measure; may be given more than once")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_flag("--list", flags->list, "list the jobs and measure nothing");
  command
      ->add_option("--seconds", flags->seconds,
                   "measure whole rounds for this many seconds, after one warm-up round")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_option("--peer", flags->peer, "script with the PyTorch loop to compare with")
      ->type_name("PATH")
      ->capture_default_str();
  command->add_option("--python", flags->python, "Python interpreter for that script")
      ->type_name("PROGRAM")
      ->take_last()
      ->capture_default_str();
  command
      ->add_option("--peer-arg", flags->peer_arguments,
                   "pass this on to that script, e.g. --peer-arg=--threads=2")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command->add_flag("--json", flags->json, "print as JSON");
  flags->runtime.add_to(*command);
  command->footer(
      "ratio: steps per second over the peer's. of peak: useful arithmetic over that of plain\n"
      "matrix products measured in the same run. on GPU: the most memory that LibTorch held "
      "there.\n"
      "images: share of memory that holds images. overhead: median time of a round outside client\n"
      "training. checkpoint: time to write one.\n"
      "Example:  winnow bench --job lenet5-b10 --job pfl --seconds 10");
  command->callback([flags, &program] { bench(*flags, program); });
}

}  // namespace winnow

// `winnow bench`: Winnow and a plain PyTorch loop do the same work, in turns.
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>

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

constexpr std::size_t kEndOfLog = std::size_t{1} << 20;  // of what a peer prints

struct BenchFlags {
  std::vector<std::string> jobs{"lenet5-b10", "cnn4-b10", "cnn4-b50"};
  double seconds = 5.0;
  std::int64_t repeats = 3;
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

// A peer that is measured now and then.
class Peer {
 public:
  explicit Peer(std::string missing = "") { result_.missing = std::move(missing); }

  bool is_missing() const { return !result_.missing.empty(); }
  // Once it has failed it is not asked again.
  void add(PeerResult result) {
    if (result.report.is_null()) {
      result_ = std::move(result);
      return;
    }
    speeds_.push_back(result.report.at("steps_per_second").get<double>());
    result_.report = std::move(result.report);
  }
  // The last report, with the median speed and those of which it is one.
  PeerResult result() const {
    PeerResult all = result_;
    if (!all.report.is_null()) {
      all.report["steps_per_second"] = middle_of(speeds_);
      all.report["speeds"] = speeds_;
      all.report["spread"] = spread_of(speeds_);
    }
    return all;
  }

 private:
  PeerResult result_;
  std::vector<double> speeds_;
};

struct Row {
  BenchJob job;
  BenchResult ours;
  PeerResult peer;
  std::optional<PeerResult> graph;  // the peer with its steps in a CUDA graph; only on a GPU

  // Ours over a peer's, null without it.
  Json ratio_to(const PeerResult& other) const {
    return other.report.is_null()
               ? Json()
               : Json(ours.steps_per_second() / other.report.at("steps_per_second").get<double>());
  }
};

double seconds_of_each(const BenchFlags& flags) {
  return flags.seconds / static_cast<double>(flags.repeats);
}

std::vector<std::string> peer_arguments(const BenchFlags& flags, const BenchJob& job,
                                        const Bench& ours) {
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
  add("--device", ours.device().str());
  add("--seconds", seconds_of_each(flags));
  const std::string precision =
      precision_name(choose_precision(flags.runtime.runtime.precision, ours.device()));
  if (precision != "fp32") {
    words.push_back("--" + precision);
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

PeerResult run_peer(const BenchFlags& flags, const std::vector<std::string>& arguments) {
  // Beside others' files: nobody can guess the name.
  const fs::path log = temporary_beside(fs::temp_directory_path() / "winnow_bench.log");
  const pid_t child = start_program(flags.python, arguments, log);
  std::optional<int> code;
  while (!(code = poll_child(child))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::string printed = read_end(log, kEndOfLog);
  fs::remove(log);
  return read_peer(printed, *code, flags.python);
}

// One line that the next one replaces; nothing where nobody watches.
void show(const BenchFlags& flags, const std::string& text) {
  if (!flags.runtime.quiet && stderr_is_terminal()) {
    tell(fmt::format("\r\033[K{}", text));
  }
}

// Why a job has no peer, or nothing.
std::string no_peer(const BenchFlags& flags, const BenchJob& job) {
  if (!job.has_peer()) {
    return job.name + " is not the peer's";
  }
  return fs::exists(flags.peer)
             ? ""
             : fmt::format("{} does not exist; name it with --peer PATH", flags.peer);
}

Row measure(const BenchFlags& flags, const BenchJob& job) {
  show(flags, fmt::format("{}: winnow", job.name));
  Bench ours(job, flags.runtime.runtime);
  Peer peer(no_peer(flags, job));
  Peer graph(no_peer(flags, job));
  const bool has_graph = ours.device().is_cuda();
  const std::vector<std::string> arguments = peer_arguments(flags, job, ours);
  std::vector<std::string> graph_arguments = arguments;
  graph_arguments.emplace_back("--graph");
  for (std::int64_t repeat = 1; repeat <= flags.repeats; ++repeat) {
    show(flags, fmt::format("{}: winnow {}/{}", job.name, repeat, flags.repeats));
    ours.measure(seconds_of_each(flags));
    show(flags, fmt::format("{}: peer {}/{}", job.name, repeat, flags.repeats));
    if (!peer.is_missing()) {
      peer.add(run_peer(flags, arguments));
    }
    if (has_graph && !graph.is_missing()) {
      graph.add(run_peer(flags, graph_arguments));
    }
  }
  show(flags, fmt::format("{}: large batches", job.name));
  return {job, ours.finish(), peer.result(),
          has_graph ? std::optional(graph.result()) : std::nullopt};
}

std::vector<Row> measure_all(const BenchFlags& flags) {
  std::vector<BenchJob> jobs;
  for (const std::string& name : flags.jobs) {
    jobs.push_back(find_bench_job(name));
  }
  std::vector<Row> rows;
  for (const BenchJob& job : jobs) {
    rows.push_back(measure(flags, job));
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
            {"ratio", row.ratio_to(row.peer)},
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
              {"speeds", ours.speeds},
              {"spread", spread_of(ours.speeds)},
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
  Json& own = json["winnow"];
  const bool has_ceiling = ours.ceiling_batch > 0;
  own["ceiling_batch"] = has_ceiling ? Json(ours.ceiling_batch) : Json();
  own["ceiling_samples_per_second"] = has_ceiling ? Json(ours.ceiling_samples) : Json();
  own["ceiling_steps_per_second"] = has_ceiling ? Json(ours.ceiling_steps()) : Json();
  own["ceiling_share"] = has_ceiling ? Json(ours.ceiling_share()) : Json();
  if (!row.peer.missing.empty()) {
    json["peer_missing"] = row.peer.missing;
  }
  if (row.graph) {
    json["graph_peer"] = row.graph->report;
    json["graph_ratio"] = row.ratio_to(*row.graph);
    if (!row.graph->missing.empty()) {
      json["graph_peer_missing"] = row.graph->missing;
    }
  }
  return json;
}

std::string megabytes(double value) {
  return fmt::format("{:.0f} MB", value);
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100.0 * share);
}

// What the table says of a peer: steps per second, their spread, and the ratio.
std::vector<std::string> peer_cells(const Row& row, const PeerResult& peer) {
  if (peer.report.is_null()) {
    return {"-", "-", "-"};
  }
  return {fmt::format("{:.1f}", peer.report.at("steps_per_second").get<double>()),
          percent(peer.report.at("spread").get<double>()),
          fmt::format("{:.2f}", row.ratio_to(peer).get<double>())};
}

void print_table(const std::vector<Row>& rows) {
  const bool has_graph =
      std::ranges::any_of(rows, [](const Row& row) { return row.graph.has_value(); });
  std::vector<std::vector<std::string>> cells{
      {"job", "steps/s", "spread", "peer steps/s", "spread", "ratio"}};
  const auto append = [&](const std::vector<std::string>& more) {
    cells.back().insert(cells.back().end(), more.begin(), more.end());
  };
  if (has_graph) {
    append({"graph steps/s", "spread", "ratio"});
  }
  append({"samples/s", "ceiling", "of ceiling", "of peak", "memory", "on GPU", "images",
          "peer memory", "overhead", "checkpoint"});
  for (const Row& row : rows) {
    const BenchResult& ours = row.ours;
    const bool has_ceiling = ours.ceiling_batch > 0;
    const Json& report = row.peer.report;
    cells.push_back({row.job.name, fmt::format("{:.1f}", ours.steps_per_second()),
                     percent(spread_of(ours.speeds))});
    append(peer_cells(row, row.peer));
    if (has_graph) {
      append(peer_cells(row, *row.graph));
    }
    append({fmt::format("{:.0f}", ours.samples_per_second()),
            has_ceiling ? fmt::format("{:.1f}", ours.ceiling_steps()) : "-",
            has_ceiling ? percent(ours.ceiling_share()) : "-", percent(ours.peak_share),
            megabytes(ours.peak_memory_mb),
            ours.device_memory_mb > 0.0 ? megabytes(ours.device_memory_mb) : "-",
            megabytes(ours.images_mb),
            report.is_null() ? "-" : megabytes(report.value("peak_memory_mb", 0.0)),
            fmt::format("{:.2f} ms", ours.overhead_ms),
            ours.ranks > 1 ? "-" : fmt::format("{:.3f} s", ours.checkpoint_seconds)});
  }
  fmt::print("{}", columns(cells, 240));
}

std::string peer_note(const std::string& name, const PeerResult& peer) {
  const Json& report = peer.report;
  return report.is_null() ? fmt::format("no {}: {}", name, peer.missing)
                          : fmt::format("{}: torch {}, {}, {}, threads {}", name,
                                        report.value("torch", "?"), report.value("device", "?"),
                                        report.value("precision", "?"), report.value("threads", 0));
}

// What the numbers were made with, each thing said once.
void print_notes(const std::vector<Row>& rows) {
  const BenchResult& ours = rows.front().ours;
  double peak = 0.0;
  std::vector<std::string> notes;
  std::map<std::int64_t, std::vector<std::string>> ceilings;  // jobs by their large batch
  for (const Row& row : rows) {
    peak = std::max(peak, row.ours.peak_gflops);
    notes.push_back(peer_note("peer", row.peer));
    if (row.graph) {
      notes.push_back(peer_note("graph peer", *row.graph));
    }
    if (row.ours.ceiling_batch > 0) {
      ceilings[row.ours.ceiling_batch].push_back(row.job.name);
    }
  }
  fmt::print("winnow: LibTorch {}, {}, {}, lanes {}; matrix products reach {:.0f} GFLOP/s\n",
             TORCH_VERSION, ours.device, ours.precision, ours.lanes, peak);
  for (const auto& [batch, jobs] : ceilings) {
    fmt::print("ceiling: batches of {} in {}\n", batch, join(jobs, ", "));
  }
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
  const std::vector<Row> rows = measure_all(flags);
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
                   "measure whole rounds of each program for this many seconds in all, after one "
                   "warm-up round")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--repeats", flags->repeats,
                   "measure in this many parts, each program in turn, and show the medians")
      ->check(CLI::Range(1, 1000))
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
      "steps/s: median of the repeats. spread: their largest less their smallest, over the "
      "median.\n"
      "ratio: steps per second over the peer's. ceiling: what the same network reaches with large\n"
      "batches, in steps of the job's batches. of peak: useful arithmetic over that of plain\n"
      "matrix products measured in the same run. on GPU: the most memory that LibTorch held "
      "there.\n"
      "images: share of memory that holds images. overhead: median time of a round outside client\n"
      "training. checkpoint: time to write one.\n"
      "Example:  winnow bench --job lenet5-b10 --job pfl --seconds 10");
  command->callback([flags, &program] { bench(*flags, program); });
}

}  // namespace winnow

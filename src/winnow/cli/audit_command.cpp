// `winnow audit`.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "winnow/audit/audit.h"
#include "winnow/audit/condition.h"
#include "winnow/audit/output.h"
#include "winnow/audit/run_evidence.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/cli/progress.h"
#include "winnow/cli/signals.h"
#include "winnow/experiment/toml.h"
#include "winnow/report/page.h"
#include "winnow/train/lane.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWorstShown = 10;

struct AuditFlags {
  std::string target;
  std::string out = "audit";
  std::string method;
  std::int64_t rounds = 0;
  std::int64_t pictures = 1000;
  AuditOptions options;
  bool plant_given = false;
  std::vector<std::string> fail_on;
  bool json = false;
  bool judgement = false;
  bool force = false;
  RuntimeFlags runtime;
  OverrideFlags overrides;
};

Json tree_of(const AuditFlags& flags) {
  const fs::path target = flags.target;
  Json tree;
  if (target.extension() == ".toml") {
    tree = load_experiment_tree(target, flags.overrides.overrides());
  } else {
    tree = audit_settings({{"name", "clients"}, {"path", target.string()}, {"test_from", "none"}});
    for (const Override& change : flags.overrides.overrides()) {
      set_by_path(tree, change.key, parse_toml_value(change.value));
    }
    anchor_paths(tree, fs::current_path());
  }
  add_audit_defaults(tree);
  if (!flags.method.empty()) {
    tree["method"] = Json{{"name", flags.method}};
  }
  if (flags.rounds > 0) {
    tree["rounds"] = flags.rounds;
  }
  return tree;
}

// A line that is renewed on a terminal, and a line for every tenth in a log.
class AuditProgress {
 public:
  explicit AuditProgress(bool quiet) : quiet_(quiet) {}

  void show(std::int64_t done, std::int64_t all, double agreement) {
    if (quiet_) {
      return;
    }
    const bool last = done == all;
    const std::string text =
        fmt::format("{} round {}/{}  agreement {}",
                    bar(static_cast<double>(done) / static_cast<double>(all), 20), done, all,
                    percent_text(agreement));
    if (stderr_is_terminal()) {
      tell(fmt::format("\r{}{}", text, last ? "\n" : ""));
    } else if (10 * done / all > 10 * (done - 1) / all) {
      tell(text + "\n");
    }
  }

 private:
  bool quiet_;
};

std::string quality_line(const std::string& what, const FoundQuality& quality) {
  const auto share = [](const std::optional<double>& value) {
    return value ? percent_text(*value) : std::string("-");
  };
  return fmt::format("  {}: {} of {} found, flag precision {}, flag recall {}, ROC area {}\n", what,
                     quality.found, quality.wrong, share(quality.precision), share(quality.recall),
                     quality.roc_area ? fmt::format("{:.3f}", *quality.roc_area) : "-");
}

void print_quality(const AuditQuality& quality) {
  fmt::print("how good this audit is\n");
  const auto line = [](const char* what, const std::optional<FoundQuality>& part) {
    if (part && part->wrong > 0) {
      fmt::print("{}", quality_line(what, *part));
    }
  };
  line("wrong labels, by the ledger", quality.labels);
  if (quality.labels_by_kind.size() > 1) {
    for (const auto& [kind, found] : quality.labels_by_kind) {
      fmt::print("{}", quality_line(fmt::format("of these {}", kind), found));
    }
  }
  line("wrong labels, as sums of a federation find them", quality.labels_by_sums);
  line("distorted images, by the ledger", quality.images);
  line("clients with label noise, by the ledger", quality.label_clients);
  line("clients with input noise, by the ledger", quality.image_clients);
  line("cleanlab's rule, models that saw the samples", quality.in_sample);
  line("cleanlab's rule, models that did not", quality.in_sample_out);
  if (quality.true_noise_rate) {
    fmt::print("  true share of wrong labels: {}\n", percent_text(*quality.true_noise_rate));
  }
  if (quality.honest_called_noisy) {
    fmt::print("  honest clients called noisy: {}\n", percent_text(*quality.honest_called_noisy));
  }
  if (quality.planted_label_recall) {
    fmt::print("  of {} wrong labels planted in a copy: {} found{}\n", quality.planted_labels,
               percent_text(*quality.planted_label_recall),
               quality.implied_precision ? fmt::format(", implied flag precision {}",
                                                       percent_text(*quality.implied_precision))
                                         : "");
  }
  if (quality.planted_image_recall) {
    fmt::print("  of {} distorted images planted in a copy: {} found\n", quality.planted_images,
               percent_text(*quality.planted_image_recall));
  }
}

void print_audit(const Audit& audit, const World& world, const fs::path& out) {
  const AuditFindings& findings = audit.findings;
  fmt::print("{}\n", bold(fmt::format("{}: {} samples of {} {}", world.data.name, audit.held.size(),
                                      findings.clients.size(),
                                      findings.clients.size() == 1 ? "client" : "clients"),
                          use_colour()));
  fmt::print("  estimated share of wrong labels: {} ({} to {})\n",
             percent_text(findings.noise_rate), percent_text(findings.interval.low),
             percent_text(findings.interval.high));
  for (const std::string& name : condition_names()) {
    if (name != "label_noise") {
      fmt::print("  {}: {}\n", name, percent_text(condition_value(audit, name)));
    }
  }
  std::vector<std::size_t> order(findings.clients.size());
  for (std::size_t c = 0; c < order.size(); ++c) {
    order[c] = c;
  }
  const auto suspicion = [&](std::size_t c) {
    const auto& p = findings.clients[c].probabilities;
    return p[static_cast<std::size_t>(Verdict::nothing_wrong)] +
           p[static_cast<std::size_t>(Verdict::rare_but_honest)];
  };
  std::ranges::stable_sort(order, {}, suspicion);
  order.resize(std::min(order.size(), kWorstShown));
  std::vector<std::vector<std::string>> rows{
      {"client", "verdict", "probability", "wrong labels", "kind", "samples"}};
  for (const std::size_t c : order) {
    const ClientFinding& client = findings.clients[c];
    rows.push_back({client_name(world, static_cast<std::int64_t>(c)),
                    std::string(verdict_name(client.verdict)), percent_text(client.probability()),
                    client.too_few ? "too few to say"
                                   : fmt::format("{} ({} to {})", percent_text(client.noise_rate),
                                                 percent_text(client.interval.low),
                                                 percent_text(client.interval.high)),
                    client.kind_text(), std::to_string(client.samples)});
  }
  fmt::print("{}", columns(rows, 200));
  print_quality(audit.quality);
  fmt::print("{}: audit.html, audit.csv, samples.csv, relabel.csv, audit.json\n", out.string());
}

void make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    throw Error(ErrorKind::run,
                fmt::format("cannot create {}: {}", folder.string(), failed.message()));
  }
}

void check_out(const AuditFlags& flags) {
  const fs::path out = flags.out;
  if (!flags.force && fs::exists(out / "audit.json")) {
    throw Error(ErrorKind::run, fmt::format("{} already holds an audit", out.string()),
                "name another folder with --out, or replace it with --force");
  }
}

void tabulate_run(const AuditFlags& flags) {
  const RunEvidence evidence = read_run_evidence(flags.target);
  if (flags.json) {
    fmt::print("{}\n", evidence.json().dump(2));
    return;
  }
  std::vector<std::vector<std::string>> rows{evidence.columns};
  const std::vector<std::vector<std::string>> shown = evidence.shown();
  rows.insert(rows.end(), shown.begin(), shown.end());
  fmt::print("{}", columns(rows, 400));
  for (const std::string& note : evidence.notes) {
    fmt::print("{}\n", note);
  }
  make_folder(flags.out);
  write_file_whole(fs::path(flags.out) / "evidence.csv", evidence.csv());
  fmt::print("{}\n", (fs::path(flags.out) / "evidence.csv").string());
}

// Prints the conditions that hold and sets the exit code.
void check_conditions(const std::vector<Condition>& conditions, const Audit& audit,
                      Program& program) {
  for (const Condition& condition : conditions) {
    const double value = condition_value(audit, condition.name);
    if (condition.holds(value)) {
      tell(fmt::format("{} is {}, and --fail-on says {} {}\n", condition.name, percent_text(value),
                       condition.comparison, percent_text(condition.bound)));
      program.exit_code = kExitCondition;
    }
  }
}

void audit_data(AuditFlags& flags, Program& program) {
  std::vector<Condition> conditions;
  for (const std::string& text : flags.fail_on) {
    conditions.push_back(parse_condition(text));
  }
  check_out(flags);
  const Experiment experiment = parse_experiment(tree_of(flags), program.registry);
  const World world = make_world(experiment, program.registry);
  if (!flags.plant_given && world.truth_known) {
    flags.options.plant = 0.0;  // the ledger says more
  }
  if (world.data.test_drawn) {
    tell(fmt::format("the test part, {} samples drawn from the same files, is not audited\n",
                     world.data.test.size()));
  }
  AuditProgress progress(flags.runtime.quiet);
  const Audit audit =
      audit_world(experiment, world, flags.options, program.registry, flags.runtime.runtime,
                  &stop_on_signals(), [&](std::int64_t done, std::int64_t all, double agreement) {
                    progress.show(done, all, agreement);
                  });
  const fs::path out = flags.out;
  make_folder(out);
  const Json json = audit_json(audit, world, experiment, flags.options);
  write_file_whole(out / "audit.csv", clients_csv(audit, world));
  write_file_whole(out / "samples.csv", samples_csv(audit, world));
  write_file_whole(out / "relabel.csv", relabel_csv(audit, world));
  write_file_whole(out / "audit.html",
                   render_audit_page(audit_page_data(audit, world, experiment, flags.pictures)));
  write_file_whole(out / "audit.json",
                   json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  if (flags.json) {
    fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    print_audit(audit, world, out);
  }
  for (const std::string& warning : audit.warnings) {
    tell("warning: " + warning + "\n");
  }
  check_conditions(conditions, audit, program);
  if (flags.judgement) {
    // Last: it is by far the largest file, and what else was found must not be lost with it.
    write_judgement(audit, world, out / "judgement.npz");
  }
}

}  // namespace

void add_audit_command(CLI::App& app, Program& program) {
  auto flags = std::make_shared<AuditFlags>();
  CLI::App* command =
      app.add_subcommand("audit", "find wrong labels, bad images and noisy clients in data");
  command
      ->add_option("TARGET", flags->target,
                   "what to audit: an experiment (TOML); data (a folder CLIENT/CLASS/* or CLASS/*, "
                   "a CSV list with the columns path, label and client, or an .npz file); or a "
                   "finished run, which prints the evidence its method found")
      ->required();
  command->add_option("-o,--out", flags->out, "folder for the results")
      ->type_name("DIR")
      ->capture_default_str();
  command
      ->add_option(
          "--folds", flags->options.judge.folds,
          "number of models, each trained without one part of the clients, which it then judges")
      ->check(CLI::Range(2, 100))
      ->capture_default_str();
  command
      ->add_option("--repeat", flags->options.judge.repetitions,
                   "number of repetitions with different folds, whose results are averaged")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_option("--method", flags->method, "method to train with (default: the experiment's)")
      ->type_name("NAME");
  command->add_option("--rounds", flags->rounds, "rounds of training for each fold")
      ->check(CLI::Range(1, 1'000'000));
  CLI::Option* plant = command->add_option(
      "--plant", flags->options.plant,
      "share of wrong labels, and of distorted images, planted in a copy of the data to measure "
      "how many the audit finds (default: 0.02, or 0 if the truth is known)");
  plant->check(CLI::Range(0.0, 0.25));
  command
      ->add_option("--fail-on", flags->fail_on,
                   "exit with code 9 if this condition holds, e.g. 'label_noise > 5%'")
      ->type_name("CONDITION")
      ->allow_extra_args(false);
  command
      ->add_option("--pictures", flags->pictures,
                   "number of samples to show on the page, worst first")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command->add_flag(
      "--in-sample", flags->options.judge.in_sample,
      "also apply cleanlab's rule to models that were trained on the samples, for comparison");
  command->add_flag("--judgement", flags->judgement,
                    "also write judgement.npz: the class probabilities of every sample, from the "
                    "model that never saw it, and its image statistics");
  command->add_flag("--force", flags->force, "replace an existing audit in the folder");
  command->add_flag("--json", flags->json, "print audit.json, or the evidence of a run");
  flags->runtime.add_to(*command);
  flags->overrides.add_to(*command);
  command->footer(
      "Conditions can use label_noise, label_issues, input_noise, outliers, duplicates,\n"
      "noisy_clients, hostile_clients and not_judged.\n"
      "Example:  winnow audit data/hospitals --set data.image_size=28 --fail-on 'label_noise > "
      "5%'");
  command->callback([flags, plant, &program] {
    flags->plant_given = plant->count() > 0;
    if (!fs::exists(flags->target)) {
      throw Error(ErrorKind::data, fmt::format("{}: no such file or folder", flags->target),
                  "expected an experiment, data or a run directory");
    }
    if (is_run_directory(flags->target)) {
      tabulate_run(*flags);
      return;
    }
    try {
      audit_data(*flags, program);
    } catch (const Interrupted&) {
      tell("stopped; nothing was saved, so the audit must start from the beginning\n");
      program.exit_code = kExitInterrupted;
    }
  });
}

}  // namespace winnow

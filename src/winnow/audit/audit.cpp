#include "winnow/audit/audit.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "winnow/audit/noise_kinds.h"
#include "winnow/base/random.h"
#include "winnow/base/text.h"
#include "winnow/method/local_training.h"
#include "winnow/noise/image/distortion.h"
#include "winnow/stats/correlation.h"

namespace winnow {
namespace {

// An audit that finds fewer of the errors it can count says nothing about the others.
constexpr double kTrustedRecall = 0.5;
// A share of wrong labels that weak models do not make up where there are none: docs/audit.md.
constexpr double kManyWrong = 0.05;

// Statistics of all images, in as many runs as there are cores.
std::vector<ImageStats> stats_of(const std::vector<HeldSample>& held, const at::Tensor& images) {
  std::vector<ImageStats> stats(held.size());
  const std::size_t workers = std::max(1U, std::thread::hardware_concurrency());
  const std::int64_t size = images.size(1) * images.size(2) * images.size(3);
  const auto* bytes = images.data_ptr<std::uint8_t>();
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      const std::size_t end = held.size() * (worker + 1) / workers;
      for (std::size_t i = held.size() * worker / workers; i < end; ++i) {
        stats[i] = image_stats({{bytes + held[i].sample * size, static_cast<std::size_t>(size)},
                                images.size(1),
                                images.size(2),
                                images.size(3)});
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return stats;
}

// Takes the places out of every list of an audit.
void remove_planted(const Planted& planted, std::vector<HeldSample>& held, Judgement& judgement,
                    std::vector<ImageStats>& stats) {
  std::vector<bool> out(held.size(), false);
  for (const auto* part : {&planted.labels, &planted.images}) {
    for (const std::size_t i : *part) {
      out[i] = true;
    }
  }
  const auto classes = static_cast<std::size_t>(judgement.classes);
  std::vector<std::vector<float>*> rows{&judgement.p, &judgement.p_in_sample};
  for (std::vector<float>& p : judgement.p_of) {
    rows.push_back(&p);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (out[i]) {
      continue;
    }
    held[kept] = held[i];
    stats[kept] = stats[i];
    judgement.judged[kept] = judgement.judged[i];
    for (std::vector<std::int64_t>& model : judgement.model_of) {
      model[kept] = model[i];
    }
    judgement.gradient_norm[kept] = judgement.gradient_norm[i];
    judgement.distance[kept] = judgement.distance[i];
    for (auto* p : rows) {
      if (!p->empty()) {
        std::copy_n(p->begin() + static_cast<std::ptrdiff_t>(i * classes), classes,
                    p->begin() + static_cast<std::ptrdiff_t>(kept * classes));
      }
    }
    ++kept;
  }
  held.resize(kept);
  stats.resize(kept);
  judgement.judged.resize(kept);
  for (std::vector<std::int64_t>& model : judgement.model_of) {
    model.resize(kept);
  }
  judgement.gradient_norm.resize(kept);
  judgement.distance.resize(kept);
  for (std::vector<float>* p : rows) {
    if (!p->empty()) {
      p->resize(kept * classes);
    }
  }
}

double share_found(const std::vector<std::size_t>& planted, const AuditFindings& findings,
                   bool SampleFinding::*flag) {
  std::size_t found = 0;
  for (const std::size_t i : planted) {
    found += findings.samples[i].*flag ? 1 : 0;
  }
  return static_cast<double>(found) / static_cast<double>(planted.size());
}

// What the findings with everything planted say of it.
void measure_planted(const Planted& planted, const AuditFindings& findings, AuditQuality& quality) {
  quality.planted_labels = std::ssize(planted.labels);
  quality.planted_images = std::ssize(planted.images);
  if (!planted.labels.empty()) {
    quality.planted_label_recall =
        share_found(planted.labels, findings, &SampleFinding::is_label_issue);
  }
  if (!planted.images.empty()) {
    quality.planted_image_recall =
        share_found(planted.images, findings, &SampleFinding::is_input_noise_issue);
  }
}

// Of all label issues those that are wrong, if the estimated rate is right and wrong labels are
// found as often as planted ones.
void imply_precision(const AuditFindings& findings, AuditQuality& quality) {
  const auto flagged = std::ranges::count_if(findings.samples, &SampleFinding::is_label_issue);
  if (quality.planted_label_recall && flagged > 0) {
    const double right =
        findings.noise_rate * static_cast<double>(findings.judged) * *quality.planted_label_recall;
    quality.implied_precision = std::min(1.0, right / static_cast<double>(flagged));
  }
}

class Measuring {
 public:
  Measuring(const Experiment& experiment, const World& world, const std::vector<HeldSample>& held,
            const AuditFindings& findings, const Judgement& judgement)
      : experiment_(experiment),
        world_(world),
        held_(held),
        findings_(findings),
        judgement_(judgement) {
    std::set<std::int64_t> distorted;
    for (const LedgerSample& entry : world.ledger.samples()) {
      if (entry.kind != "label") {
        distorted.insert(entry.sample);
      }
    }
    for (const HeldSample& sample : held) {
      const std::int64_t truth = world.data.train.labels[static_cast<std::size_t>(sample.sample)];
      wrong_.push_back(sample.given != truth);
      distorted_.push_back(distorted.contains(sample.sample));
    }
  }

  void measure_all(AuditQuality& quality) const {
    std::vector<bool> issues;
    std::vector<bool> inputs;
    std::vector<double> doubt;
    std::vector<double> oddity;
    for (const SampleFinding& sample : findings_.samples) {
      issues.push_back(sample.is_label_issue);
      inputs.push_back(sample.is_input_noise_issue);
      doubt.push_back(1.0 - sample.label_score);
      oddity.push_back(1.0 - sample.input_noise_score);
    }
    quality.true_noise_rate = static_cast<double>(std::ranges::count(wrong_, true)) /
                              std::max(1.0, static_cast<double>(wrong_.size()));
    quality.labels = measure(issues, wrong_, doubt);
    quality.labels_by_sums = measure(findings_.issues_by_sums, wrong_, margins(judgement_.p));
    measure_kinds(issues, doubt, quality);
    quality.images = measure(inputs, distorted_, oddity);
    if (!judgement_.p_in_sample.empty()) {
      quality.in_sample = rule(judgement_.p_in_sample);
      quality.in_sample_out = rule(judgement_.p);
    }
    measure_clients(quality);
  }

 private:
  void measure_kinds(const std::vector<bool>& issues, const std::vector<double>& doubt,
                     AuditQuality& quality) const {
    const auto kinds = label_noise_kinds(experiment_, world_.ledger);
    std::map<std::string, std::vector<std::size_t>> wrong_of;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      if (const auto kind = kinds.find(held_[i].sample); wrong_[i] && kind != kinds.end()) {
        wrong_of[kind->second].push_back(i);
      }
    }
    for (const auto& [kind, places] : wrong_of) {
      std::vector<bool> flagged;
      std::vector<double> suspicion;
      const auto add = [&](std::size_t i) {
        flagged.push_back(issues[i]);
        suspicion.push_back(doubt[i]);
      };
      std::ranges::for_each(places, add);
      std::vector<bool> wrong(places.size(), true);
      for (std::size_t i = 0; i < held_.size(); ++i) {
        if (!wrong_[i]) {
          add(i);
        }
      }
      wrong.resize(flagged.size(), false);
      quality.labels_by_kind[kind] = measure(flagged, wrong, suspicion);
    }
  }

  // How far the given label of each sample lies behind the best other one.
  std::vector<double> margins(const std::vector<float>& p) const {
    const auto classes = static_cast<std::size_t>(judgement_.classes);
    std::vector<double> doubt;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      doubt.push_back(1.0 -
                      label_score(std::span(p).subspan(i * classes, classes), held_[i].given));
    }
    return doubt;
  }

  FoundQuality rule(const std::vector<float>& p) const {
    return measure(beside_the_diagonal(p, judgement_.classes, held_), wrong_, margins(p));
  }

  void measure_clients(AuditQuality& quality) const {
    std::vector<std::int64_t> samples(findings_.clients.size());
    std::vector<std::int64_t> wrong(samples.size());
    std::vector<std::int64_t> distorted(samples.size());
    for (std::size_t i = 0; i < held_.size(); ++i) {
      const auto client = static_cast<std::size_t>(held_[i].client);
      ++samples[client];
      wrong[client] += wrong_[i] ? 1 : 0;
      distorted[client] += distorted_[i] ? 1 : 0;
    }
    // A client is noisy with a twentieth of its samples: a label or two is no kind of client.
    const auto many = [](std::int64_t part, std::int64_t whole) { return 20 * part >= whole; };
    std::vector<bool> label_noisy;
    std::vector<bool> image_noisy;
    std::vector<bool> called_label;
    std::vector<bool> called_image;
    std::vector<double> p_label;
    std::vector<double> p_image;
    double honest = 0.0;
    double called = 0.0;
    for (std::size_t c = 0; c < samples.size(); ++c) {
      if (samples[c] == 0) {
        continue;
      }
      const ClientFinding& client = findings_.clients[c];
      const auto p = [&](Verdict verdict) {
        return client.probabilities[static_cast<std::size_t>(verdict)];
      };
      label_noisy.push_back(many(wrong[c], samples[c]));
      image_noisy.push_back(many(distorted[c], samples[c]));
      called_label.push_back(client.verdict == Verdict::label_noise ||
                             client.verdict == Verdict::hostile);
      called_image.push_back(client.verdict == Verdict::input_noise);
      p_label.push_back(p(Verdict::label_noise) + p(Verdict::hostile));
      p_image.push_back(p(Verdict::input_noise));
      if (wrong[c] == 0 && distorted[c] == 0) {
        honest += 1.0;
        called += called_label.back() || called_image.back() ? 1.0 : 0.0;
      }
    }
    quality.label_clients = measure(called_label, label_noisy, p_label);
    quality.image_clients = measure(called_image, image_noisy, p_image);
    if (honest > 0.0) {
      quality.honest_called_noisy = called / honest;
    }
  }

  const Experiment& experiment_;
  const World& world_;
  const std::vector<HeldSample>& held_;
  const AuditFindings& findings_;
  const Judgement& judgement_;
  std::vector<bool> wrong_;
  std::vector<bool> distorted_;
};

bool is_noisy(const ClientFinding& client) {
  return client.verdict != Verdict::nothing_wrong && client.verdict != Verdict::rare_but_honest;
}

// Models that are too weak to judge, verdicts without anyone to compare with or without anyone who
// differs, and clients or folders that look like the test part of a set.
// spec: audit 7
std::vector<std::string> warnings_of(const World& world, const Audit& audit) {
  std::vector<std::string> warnings;
  const std::optional<double> found =
      audit.quality.labels ? audit.quality.labels->recall : audit.quality.planted_label_recall;
  if (found && *found < kTrustedRecall) {
    warnings.push_back(
        fmt::format("only {:.0f} % of the labels known to be wrong were found: the models have "
                    "learnt too little to judge labels, so the rates and verdicts cannot be "
                    "trusted; raise --rounds or train.epochs",
                    100.0 * *found));
  }
  if (world.clients.size() == 1) {
    warnings.emplace_back(
        "there is one owner only, and a verdict compares clients with each other: go by the share "
        "of wrong labels and by the samples");
  }
  const auto owners = std::ranges::count_if(
      world.clients, [](const ClientData& client) { return !client.samples.empty(); });
  if (owners > 1 && audit.findings.interval.low > kManyWrong &&
      std::ranges::none_of(audit.findings.clients, is_noisy)) {
    warnings.push_back(fmt::format(
        "about {:.0f} % of the labels seem to be wrong, but no client stands out. Verdicts compare "
        "clients with the cleanest of them: the labels may be equally noisy everywhere, or the "
        "models may have learnt too little",
        100.0 * audit.findings.noise_rate));
  }
  std::vector<std::string> tests;
  for (const std::string& name : world.data.client_names) {
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (lower == "test" || lower == "val" || lower == "valid" || lower == "validation" ||
        lower == "eval") {
      tests.push_back(name);
    }
  }
  if (!tests.empty()) {
    warnings.push_back(fmt::format(
        "the audited data seems to include a test split: {}. A test set that is corrected by a "
        "model's opinion measures that opinion; accept its rows of relabel.csv only by hand",
        join(tests, ", ")));
  }
  if (audit.findings.not_judged > 0) {
    warnings.push_back(
        fmt::format("{} samples are not judged: no client outside their fold holds their class",
                    audit.findings.not_judged));
  }
  return warnings;
}

}  // namespace

Planted plant(double share, std::int64_t classes, std::uint64_t seed, std::vector<HeldSample>& held,
              at::Tensor& images) {
  Planted planted;
  const auto count = static_cast<std::int64_t>(share * static_cast<double>(held.size()));
  if (count == 0 || classes < 2) {
    return planted;
  }
  Stream stream(seed, "audit plant");
  const std::vector<std::int64_t> chosen = stream.sample(std::ssize(held), 2 * count);
  images = images.clone();
  std::vector<DistortionJob> jobs;
  const std::vector<std::string>& kinds = distortion_set("main");
  for (std::size_t n = 0; n < chosen.size(); ++n) {
    const auto i = static_cast<std::size_t>(chosen[n]);
    if (n % 2 == 0) {
      const auto step =
          1 + static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(classes - 1)));
      held[i].given = (held[i].given + step) % classes;
      planted.labels.push_back(i);
    } else if (images.size(1) == 1 || images.size(1) == 3) {
      jobs.push_back(
          {held[i].sample, &builtin_distortions().find(kinds[stream.below(kinds.size())]), 5});
      planted.images.push_back(i);
    }
  }
  distort_images(images, jobs, stream_key(seed, "audit plant images", {}),
                 static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  return planted;
}

FoundQuality measure(const std::vector<bool>& flagged, const std::vector<bool>& wrong,
                     const std::vector<double>& suspicion) {
  FoundQuality quality;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    quality.wrong += wrong[i] ? 1 : 0;
    quality.flagged += flagged[i] ? 1 : 0;
    quality.found += wrong[i] && flagged[i] ? 1 : 0;
  }
  if (quality.flagged > 0) {
    quality.precision = static_cast<double>(quality.found) / static_cast<double>(quality.flagged);
  }
  if (quality.wrong > 0) {
    quality.recall = static_cast<double>(quality.found) / static_cast<double>(quality.wrong);
  }
  quality.roc_area = roc_area(suspicion, wrong);
  return quality;
}

Json audit_settings(Json data) {
  return {{"name", "audit"},
          {"rounds", 10},
          {"data", std::move(data)},
          {"federation", {{"fraction", 1.0}}},
          {"model", {{"name", "lenet5"}}},
          {"train", {{"epochs", 1}, {"batch_size", 32}, {"lr", 0.05}, {"momentum", 0.5}}}};
}

void add_audit_defaults(Json& tree) {
  if (!tree.contains("train") || !tree["train"].contains("label_smoothing")) {
    tree["train"]["label_smoothing"] = 0.1;  // spec: audit 1
  }
}

Audit audit_world(const Experiment& experiment, const World& world, const AuditOptions& options,
                  const Registry& registry, const Runtime& runtime, const std::atomic<bool>* stop,
                  const JudgeProgress& progress) {
  if (world.data.classes > kMostPairedClasses) {
    throw Error(
        ErrorKind::data,
        fmt::format("audit: {} classes are more than {}, the most whose pairs it can compare",
                    world.data.classes, kMostPairedClasses));
  }
  Audit audit;
  audit.held = samples_of(world.clients);
  at::Tensor images = world.data.train.images;
  const Planted planted =
      plant(options.plant, world.data.classes, experiment.seed, audit.held, images);
  Judgement judgement = judge_out_of_sample(experiment, world, audit.held, images, options.judge,
                                            registry, runtime, stop, progress);
  std::vector<ImageStats> stats = stats_of(audit.held, images);
  const auto clients = std::ssize(world.clients);
  const auto look = [&] {
    const FindingsInput input{audit.held, judgement, stats, images, clients, experiment.seed};
    AuditFindings found = make_findings(input);
    judge_labels(input, stop, found);
    return found;
  };
  if (!planted.labels.empty() || !planted.images.empty()) {
    measure_planted(planted, look(), audit.quality);
    remove_planted(planted, audit.held, judgement, stats);
  }
  audit.findings = look();
  imply_precision(audit.findings, audit.quality);
  audit.over_clients =
      make_folds(world.clients, world.data.classes, options.judge.folds, experiment.seed, 0)
          .over_clients;
  if (options.judge.in_sample) {
    audit.in_sample_issues =
        beside_the_diagonal(judgement.p_in_sample, judgement.classes, audit.held);
  }
  if (world.truth_known) {
    Measuring(experiment, world, audit.held, audit.findings, judgement).measure_all(audit.quality);
  }
  audit.warnings = warnings_of(world, audit);
  if (judgement.p_of.empty()) {
    judgement.p_of.push_back(std::move(judgement.p));
  }
  audit.p_of = std::move(judgement.p_of);
  audit.model_of = std::move(judgement.model_of);
  audit.stats = std::move(stats);
  return audit;
}

}  // namespace winnow

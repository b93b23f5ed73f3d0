// An audit from a world to its findings, with its own quality measured (spec: audit 1 to 6).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "winnow/audit/findings.h"
#include "winnow/audit/out_of_sample.h"

namespace winnow {

struct AuditOptions {
  JudgeOptions judge = {};
  // Share of wrong labels, and of distorted images, in what is judged; 0: none.
  double plant = 0.02;
};

// What was put into the copy that is judged, by place in the list of samples.
struct Planted {
  std::vector<std::size_t> labels = {};
  std::vector<std::size_t> images = {};
};

// How well something is found, against what is known. A share of nothing is no number.
struct FoundQuality {
  std::int64_t wrong = 0;  // that there are
  std::int64_t found = 0;  // of these
  std::int64_t flagged = 0;
  std::optional<double> precision = {};
  std::optional<double> recall = {};
  std::optional<double> roc_area = {};
};

struct AuditQuality {
  // Against the ledger, where the truth is known.
  std::optional<FoundQuality> labels = {};
  // Of what a federation that audits itself would call label issues, from sums.
  std::optional<FoundQuality> labels_by_sums = {};
  // By kind of label noise, as noise_kinds.h has them; wrong labels of the other kinds are left
  // out.
  std::map<std::string, FoundQuality> labels_by_kind = {};
  std::optional<FoundQuality> images = {};
  std::optional<FoundQuality> in_sample = {};  // cleanlab's rule, from models that saw the samples
  std::optional<FoundQuality> in_sample_out = {};  // the same rule from those that did not
  std::optional<FoundQuality> label_clients = {};
  std::optional<FoundQuality> image_clients = {};
  std::optional<double> honest_called_noisy = {};  // share of the honest clients
  std::optional<double> true_noise_rate = {};
  // Against what was planted.
  std::optional<double> planted_label_recall = {};
  std::optional<double> planted_image_recall = {};
  std::optional<double> implied_precision = {};  // of label issues, spec: audit 6
  std::int64_t planted_labels = 0;
  std::int64_t planted_images = 0;
};

struct Audit {
  std::vector<HeldSample> held;  // without what was planted
  AuditFindings findings;        // samples in the order of `held`
  AuditQuality quality;
  // By sample, what cleanlab's rule says from models that saw it; empty unless asked for.
  std::vector<bool> in_sample_issues = {};
  // By repetition, of each sample and class, from models that never saw the sample.
  std::vector<std::vector<float>> p_of;
  std::vector<std::vector<std::int64_t>> model_of;  // whose fold's model that was
  std::vector<ImageStats> stats;
  bool over_clients = true;
  // A member's own part of an audit that its federation made of sums: what only a look at all
  // clients shows is not known here, and what a verdict is made of neither.
  bool of_member = false;
  std::vector<std::string> warnings;
};

// The settings by which data that comes without an experiment is judged, over the table `data`: a
// small network that every client trains alike.
Json audit_settings(Json data);
// Sets what an audit has otherwise than a run, unless the tree says it.
void add_audit_defaults(Json& tree);

// Audits the clients of a world. The world's true labels and its ledger are looked at only for the
// quality, where they are known.
Audit audit_world(const Experiment& experiment, const World& world, const AuditOptions& options,
                  const Registry& registry, const Runtime& runtime, const std::atomic<bool>* stop,
                  const JudgeProgress& progress);

// Changes `share` of the labels, each to another class, and distorts as many other images, drawn
// from (seed, "audit plant").
Planted plant(double share, std::int64_t classes, std::uint64_t seed, std::vector<HeldSample>& held,
              at::Tensor& images);

FoundQuality measure(const std::vector<bool>& flagged, const std::vector<bool>& wrong,
                     const std::vector<double>& suspicion);

}  // namespace winnow

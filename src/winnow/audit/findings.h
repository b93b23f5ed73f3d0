// From what models and images say to findings about samples and clients (spec: audit 2 to 5). No
// file is read or written here, and what comes from several clients comes as sums.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "winnow/audit/image_stats.h"
#include "winnow/audit/out_of_sample.h"
#include "winnow/audit/verdict.h"
#include "winnow/stats/confident.h"
#include "winnow/stats/noise_kind.h"

namespace winnow {

inline constexpr std::int64_t kFewSamples = 30;  // too few to say: spec: audit 2

struct SampleFinding {
  bool judged = true;
  std::int64_t predicted = -1;
  std::int64_t counted = -1;  // confident_class(); -1: nowhere
  double label_score = 1.0;
  double outlier_score = 1.0;
  double near_duplicate_score = 1.0;
  std::int64_t near_duplicate_set = -1;  // number of the group in its client
  double dark_score = 1.0;
  double light_score = 1.0;
  double blurry_score = 1.0;
  double low_information_score = 1.0;
  double input_noise_score = 1.0;
  bool is_label_issue = false;
  bool is_outlier_issue = false;
  bool is_near_duplicate_issue = false;
  bool is_dark_issue = false;
  bool is_light_issue = false;
  bool is_blurry_issue = false;
  bool is_low_information_issue = false;
  bool is_input_noise_issue = false;

  bool any_issue() const {
    return is_label_issue || is_outlier_issue || is_near_duplicate_issue || is_dark_issue ||
           is_light_issue || is_blurry_issue || is_low_information_issue || is_input_noise_issue;
  }
};

struct ClientFinding {
  std::int64_t samples = 0;
  std::int64_t judged = 0;
  std::int64_t label_issues = 0;
  std::int64_t input_issues = 0;
  double noise_rate = 0.0;
  Interval interval;
  bool too_few = false;
  KindFinding kind;
  std::vector<std::int64_t> missing_classes = {};  // that others hold
  std::vector<std::int64_t> rare_classes = {};     // fewer than five samples
  std::int64_t duplicates_inside = 0;
  std::int64_t duplicates_across = 0;
  std::array<double, kImageStats> image_shift{};  // mean rank among all, -0.5 to 0.5
  VerdictFeatures features{};
  std::array<double, kVerdicts> probabilities{};
  Verdict verdict = Verdict::nothing_wrong;

  // The chosen kind of label noise; "distorted images" where the verdict is input noise.
  std::string kind_text() const;
  double probability() const { return probabilities[static_cast<std::size_t>(verdict)]; }
};

struct AuditFindings {
  std::vector<SampleFinding> samples;
  std::vector<ClientFinding> clients;
  std::vector<double> thresholds;
  double noise_rate = 0.0;
  Interval interval;
  std::int64_t judged = 0;
  std::int64_t not_judged = 0;
};

struct FindingsInput {
  const std::vector<HeldSample>& held;
  const Judgement& judgement;
  const std::vector<ImageStats>& stats;  // by place in `held`
  const at::Tensor& images;              // as judged
  std::int64_t clients = 0;
  std::uint64_t key = 0;  // of the hashes by which clients compare images
};

AuditFindings make_findings(const FindingsInput& input);

// Which samples confident learning alone calls wrongly labelled, from any probabilities: counted
// beside the diagonal, as cleanlab's rule has it. For comparisons.
std::vector<bool> beside_the_diagonal(std::span<const float> p, std::int64_t classes,
                                      const std::vector<HeldSample>& held);

}  // namespace winnow

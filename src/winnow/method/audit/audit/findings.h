// What an audit says of a sample, which stays with its owner, and of a client.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "winnow/stats/confident.h"
#include "winnow/stats/image_stats.h"
#include "winnow/stats/noise_kind.h"
#include "winnow/stats/verdict.h"

namespace winnow {

inline constexpr std::int64_t kFewSamples = 30;  // too few to say: spec: audit 2
inline constexpr std::int64_t kRareClass = 5;    // a class of fewer samples is rare
inline constexpr std::int64_t kNoSuggestion = -1;

struct SampleFinding {
  bool judged = true;
  std::int64_t predicted = -1;             // by the model alone
  std::int64_t suggested = kNoSuggestion;  // the label to put instead of one that is an issue
  std::int64_t counted = -1;               // confident_class(); -1: nowhere
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
  bool operator==(const SampleFinding&) const = default;
};

struct ClientFinding {
  std::int64_t samples = 0;
  std::int64_t judged = 0;
  std::int64_t label_issues = 0;
  std::int64_t input_issues = 0;
  double noise_rate = 0.0;
  double confident_rate = 0.0;  // the same by confident learning
  Interval interval = {};       // of the noise rate, if the samples were drawn again; no more
  bool too_few = false;
  KindFinding kind = {};
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

}  // namespace winnow

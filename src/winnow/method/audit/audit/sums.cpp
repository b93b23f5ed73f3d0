#include "winnow/method/audit/audit/sums.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "winnow/base/math.h"

namespace winnow {

std::string ClientFinding::kind_text() const {
  return verdict == Verdict::input_noise ? "distorted images" : std::string(kind_name(kind.kind));
}

namespace audit {
namespace {

constexpr double kItemShare = 0.01;      // a finding about an item is one about few
constexpr double kSharedSamples = 10.0;  // that thresholds of all samples weigh in a fold's
constexpr double kLeastSpread = 0.01;    // of an image statistic
constexpr double kUsualDistance = 0.5;   // that a mix of classes of one's own explains

template <typename Histograms>
void add_each(const Histograms& from, Histograms& to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] += from[i];
  }
}

double total_of(const std::vector<std::int64_t>& counts) {
  return static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
}

// Off-diagonal counts beyond what the honest confusion leads one to expect, as a share.
double disagreement(const JointCounts& counts, const Confusion& confusion) {
  double seen = 0.0;
  double due = 0.0;
  double all = 0.0;
  for (std::int64_t c = 0; c < counts.classes(); ++c) {
    const auto row = static_cast<double>(counts.row(c));
    all += row;
    seen += row - static_cast<double>(counts.at(c, c));
    due += row * (1.0 - confusion.at(c, c));
  }
  return all > 0.0 ? (seen - due) / all : 0.0;
}

// Half the sum of differences between the shares of classes.
double mix_distance(const std::vector<std::int64_t>& own, const std::vector<std::int64_t>& all) {
  const double own_total = std::max(total_of(own), 1.0);
  const double total = std::max(total_of(all), 1.0);
  double mix = 0.0;
  for (std::size_t c = 0; c < own.size(); ++c) {
    mix += 0.5 *
           std::abs(static_cast<double>(own[c]) / own_total - static_cast<double>(all[c]) / total);
  }
  return mix;
}

// The middle of the smallest third: what clients have that nothing is wrong with, even where most
// are not so.
double low_value(std::vector<double> values) {
  std::ranges::sort(values);
  return values[(values.size() + 2) / 3 / 2];
}

// spec: audit 5
VerdictFeatures features_of(const ClientFinding& finding, const FirstSums& first,
                            const SecondSums& second, const Population& all, const Pooled& pooled,
                            std::size_t place, const UpdateShape& update) {
  const auto counted = static_cast<double>(second.counts.total());
  const KindFit& none = finding.kind.fit(NoiseKind::none);
  const KindFit& best = finding.kind.fit(finding.kind.kind);
  const double most_shift = std::abs(*std::ranges::max_element(
      finding.image_shift, {}, [](double shift) { return std::abs(shift); }));
  const double rate = finding.kind.expected_rate;
  return {rate,
          std::clamp((none.bic - best.bic) / (2.0 * std::max(counted, 1.0)), 0.0, 1.0),
          2.0 * std::max(0.0, rate - 0.5) *
              (finding.kind.fit(NoiseKind::pair).weight +
               finding.kind.fit(NoiseKind::class_dependent).weight),
          std::clamp(second.mixture, 0.0, 2.0),
          2.0 * most_shift,
          pooled.image_distance[place],
          2.0 * (all.gradient.mean_rank(first.gradient) - 0.5),
          2.0 * (pooled.distance.mean_rank(second.distance) - 0.5),
          update.cosine,
          std::clamp(math::log(std::max(update.norm, 1e-3)), -2.0, 2.0),
          mix_distance(first.held, all.held),
          disagreement(second.counts, pooled.confusions[place]),
          2.0 * finding.image_shift[static_cast<std::size_t>(ImageStat::noise)],
          2.0 * std::max(0.0, -finding.image_shift[static_cast<std::size_t>(ImageStat::sharpness)]),
          pooled.image_spread[place]};
}

}  // namespace

Population& Population::operator+=(const FirstSums& client) {
  std::ranges::transform(held, client.held, held.begin(), std::plus<>());
  labels += client.labels;
  add_each(client.stats, stats);
  add_each(client.scores, scores);
  gradient += client.gradient;
  return *this;
}

double middle_distance(const StatHistogram& distances) {
  return from_log_scale(distances.quantile(0.5));
}

Told tell(const Population& all) {
  Told told{.thresholds = all.labels.thresholds()};
  for (std::size_t s = 0; s < kImageStats; ++s) {
    const StatHistogram& stat = all.stats[s];
    told.middle[s] = stat.quantile(0.5);
    told.spread[s] = std::max((stat.quantile(0.75) - stat.quantile(0.25)) / 1.35, 0.01);
  }
  for (std::size_t s = 0; s < kItemScores; ++s) {
    told.rare[s] = all.scores[s].rare_below(kItemShare);
  }
  return told;
}

// spec: audit 2
std::vector<double> fold_thresholds(const ThresholdSums& fold, const ThresholdSums& all) {
  std::vector<double> thresholds = all.thresholds();
  const std::vector<double> sums = fold.sums();
  for (std::size_t c = 0; c < thresholds.size(); ++c) {
    if (all.samples()[c] > 0) {
      thresholds[c] = (sums[c] + kSharedSamples * thresholds[c]) /
                      (static_cast<double>(fold.samples()[c]) + kSharedSamples);
    }
  }
  return thresholds;
}

// spec: audit 2
Pooled::Pooled(std::int64_t classes, const std::vector<Member>& members)
    : counts(classes), bars(static_cast<std::size_t>(classes), 0.25) {
  ThresholdSums confident(classes);
  for (const Member& member : members) {
    counts += member.second->counts;
    confident += member.second->confident;
    distance += member.second->distance;
  }
  const std::vector<double> means = confident.thresholds();
  for (std::size_t c = 0; c < bars.size(); ++c) {
    if (confident.samples()[c] > 0) {
      bars[c] = std::clamp(means[c] - 0.5, 0.0, 0.5);
    }
  }
  if (!members.empty()) {
    find_kinds(classes, members);
    compare_images(members);
  }
}

// spec: audit 3
void Pooled::find_kinds(std::int64_t classes, const std::vector<Member>& members) {
  std::vector<JointCounts> each;
  for (const Member& member : members) {
    each.push_back(member.second->counts);
  }
  const Confusion of_all = honest_confusion(each);
  for (const JointCounts& own : each) {
    kinds.push_back(find_kind(own, of_all));
  }
  std::vector<std::size_t> cleanest(members.size());
  std::iota(cleanest.begin(), cleanest.end(), std::size_t{0});
  std::ranges::stable_sort(cleanest, {}, [this](std::size_t m) { return kinds[m].expected_rate; });
  cleanest.resize((members.size() + 2) / 3);
  confusions.assign(members.size(), of_all);
  std::map<std::int64_t, JointCounts> cleanest_of;  // by fold
  std::vector<bool> is_cleanest(members.size(), false);
  for (const std::size_t m : cleanest) {
    cleanest_of.try_emplace(members[m].fold, classes).first->second += each[m];
    is_cleanest[m] = true;
  }
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (members[m].fold < 0) {
      continue;
    }
    JointCounts neighbours(classes);
    if (const auto of_fold = cleanest_of.find(members[m].fold); of_fold != cleanest_of.end()) {
      neighbours += of_fold->second;
    }
    for (std::int64_t i = 0; is_cleanest[m] && i < classes; ++i) {
      for (std::int64_t j = 0; j < classes; ++j) {
        neighbours.add(i, j, -each[m].at(i, j));  // its own are no evidence about itself
      }
    }
    confusions[m] = model_confusion(of_all, neighbours);
    kinds[m] = find_kind(each[m], confusions[m]);
  }
}

// spec: audit 4
void Pooled::compare_images(const std::vector<Member>& members) {
  for (const Member& member : members) {
    const double mean = member.second->image_distance / static_cast<double>(member.first->samples);
    image_distance.push_back(std::clamp(math::log(std::max(mean, 0.05)), -3.0, 3.0));
  }
  const double low = low_value(image_distance);
  std::ranges::for_each(image_distance, [low](double& value) {
    value = std::max(0.0, value - low - kUsualDistance);
  });
  image_spread.assign(members.size(), 0.0);
  for (std::size_t s = 0; s < kImageStats; ++s) {
    std::vector<double> spread;
    for (const Member& member : members) {
      const StatHistogram& stat = member.first->stats[s];
      spread.push_back(stat.quantile(0.9) - stat.quantile(0.1) + kLeastSpread);
    }
    const double least = low_value(spread);
    for (std::size_t m = 0; m < members.size(); ++m) {
      image_spread[m] += math::log(spread[m] / least) / static_cast<double>(kImageStats);
    }
  }
}

ClientFinding describe(const FirstSums& first, const SecondSums& second, const Population& all,
                       const Pooled& pooled, std::size_t place, const UpdateShape& update) {
  ClientFinding finding;
  finding.samples = first.samples;
  if (first.samples == 0) {
    finding.probabilities[static_cast<std::size_t>(Verdict::nothing_wrong)] = 1.0;
    return finding;
  }
  const std::vector<std::int64_t>& judged = first.labels.samples();
  finding.judged = std::accumulate(judged.begin(), judged.end(), std::int64_t{0});
  finding.noise_rate = noise_rate(calibrated_joint(second.counts, judged), second.counts.classes());
  finding.confident_rate = finding.noise_rate;
  finding.interval = wilson(finding.noise_rate, static_cast<double>(finding.judged));
  finding.too_few = finding.judged < kFewSamples;
  finding.kind = pooled.kinds[place];
  finding.duplicates_inside = second.duplicates;
  for (std::size_t c = 0; c < first.held.size(); ++c) {
    if (first.held[c] == 0 && all.held[c] > 0) {
      finding.missing_classes.push_back(static_cast<std::int64_t>(c));
    } else if (first.held[c] > 0 && first.held[c] < kRareClass) {
      finding.rare_classes.push_back(static_cast<std::int64_t>(c));
    }
  }
  for (std::size_t s = 0; s < kImageStats; ++s) {
    finding.image_shift[s] = all.stats[s].mean_rank(first.stats[s]) - 0.5;
  }
  finding.features = features_of(finding, first, second, all, pooled, place, update);
  finding.probabilities = verdict_probabilities(finding.features);
  finding.verdict = likeliest_verdict(finding.probabilities);
  return finding;
}

}  // namespace audit
}  // namespace winnow

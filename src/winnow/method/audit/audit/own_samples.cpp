#include "winnow/method/audit/audit/own_samples.h"

#include <algorithm>
#include <map>
#include <numbers>
#include <numeric>

#include "winnow/base/math.h"
#include "winnow/stats/mixture.h"

namespace winnow::audit {
namespace {

// cleanlab's thresholds, spec: audit 4
constexpr std::array kItemBelow{0.32, 0.05, 0.29, 0.3};  // dark, light, blurry, low information
constexpr double kOutlier = 0.125;
constexpr double kInputNoise = 0.5;
constexpr std::size_t kMixtureSamples = 10;

std::array<double, kItemScores> item_scores(const ImageStats& stats) {
  return {stats.dark_score, stats.light_score, stats.blurry_score, stats.low_information_score};
}

// Gain in mean log-likelihood of two normal components over one.
double mixture_gain(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double variance = 1e-6;
  for (const double value : values) {
    variance += (value - mean) * (value - mean) / count;
  }
  const double one = -0.5 * (math::log(2.0 * std::numbers::pi * variance) + 1.0);
  const Mixture two = gmm2(values);
  return two.iterations == 0 ? 0.0 : std::max(0.0, two.lower_bound - one);
}

// spec: audit 2
double label_mixture(const OwnSamples& own, const std::vector<SampleFinding>& found) {
  std::map<std::int64_t, std::vector<double>> scores;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own.judged[i]) {
      scores[own.given[i]].push_back(found[i].label_score);
    }
  }
  double gain = 0.0;
  double samples = 0.0;
  for (const auto& [label, values] : scores) {
    if (values.size() >= kMixtureSamples) {
      gain += static_cast<double>(values.size()) * mixture_gain(values);
      samples += static_cast<double>(values.size());
    }
  }
  return samples > 0.0 ? gain / samples : 0.0;
}

// Mean square of an image's statistics in spreads of the population.
double image_distance(const ImageStats& stats, const Told& told) {
  double sum = 0.0;
  for (std::size_t s = 0; s < kImageStats; ++s) {
    const double away = (stats.values[s] - told.middle[s]) / told.spread[s];
    sum += std::min(away * away, 100.0);
  }
  return sum / static_cast<double>(kImageStats);
}

void look_at_item(const ImageStats& stats, const Told& told, SampleFinding& sample) {
  const auto scores = item_scores(stats);
  const std::array<bool*, kItemScores> flags{&sample.is_dark_issue, &sample.is_light_issue,
                                             &sample.is_blurry_issue,
                                             &sample.is_low_information_issue};
  for (std::size_t s = 0; s < kItemScores; ++s) {
    *flags[s] = scores[s] < kItemBelow[s] && scores[s] < told.rare[s];
  }
  sample.dark_score = scores[0];
  sample.light_score = scores[1];
  sample.blurry_score = scores[2];
  sample.low_information_score = scores[3];
}

// spec: audit 4
std::int64_t find_near_duplicates(const OwnSamples& own, std::vector<SampleFinding>& found) {
  std::vector<std::uint64_t> hashes;
  for (const ImageStats& stats : own.stats) {
    hashes.push_back(stats.hash);
  }
  const auto difference = [&](std::size_t a, std::size_t b) {
    return mean_difference(own.image(a), own.image(b));
  };
  const auto groups = near_duplicates(
      hashes, [&](std::size_t a, std::size_t b) { return difference(a, b) <= kNearLevels; });
  std::int64_t members = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::size_t member : groups[g]) {
      double nearest = 255.0;
      for (const std::size_t other : groups[g]) {
        if (other != member) {
          nearest = std::min(nearest, difference(member, other));
        }
      }
      found[member].near_duplicate_set = static_cast<std::int64_t>(g);
      found[member].is_near_duplicate_issue = true;
      found[member].near_duplicate_score = std::min(1.0, nearest / (2.0 * kNearLevels));
      ++members;
    }
  }
  return members;
}

}  // namespace

std::vector<std::int64_t> count_labels(std::span<const std::int64_t> given, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (const std::int64_t label : given) {
    ++counts[static_cast<std::size_t>(label)];
  }
  return counts;
}

FirstSums first_sums(const OwnSamples& own, std::span<const double> gradient_norms,
                     std::int64_t least) {
  FirstSums sums(own.classes);
  sums.samples = std::ssize(own);
  sums.held = count_labels(own.given, own.classes);
  std::ranges::for_each(sums.held, [least](std::int64_t& held) { held = held < least ? 0 : held; });
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own.judged[i]) {
      sums.labels.add(own.row(i), own.given[i]);
    }
    for (std::size_t s = 0; s < kImageStats; ++s) {
      sums.stats[s].add(own.stats[i].values[s]);
    }
    const auto scores = item_scores(own.stats[i]);
    for (std::size_t s = 0; s < kItemScores; ++s) {
      sums.scores[s].add(scores[s]);
    }
    sums.gradient.add(on_log_scale(gradient_norms[i]));
    sums.distance.add(on_log_scale(own.distance[i]));
  }
  return sums;
}

SecondSums second_sums(const OwnSamples& own, const Told& told, std::int64_t least,
                       std::vector<SampleFinding>& found) {
  SecondSums sums(own.classes);
  found.assign(own.size(), {});
  for (std::size_t i = 0; i < own.size(); ++i) {
    SampleFinding& sample = found[i];
    const std::span<const float> p = own.row(i);
    sample.judged = own.judged[i];
    sample.predicted = std::ranges::max_element(p) - p.begin();
    if (sample.judged) {
      sample.label_score = label_score(p, own.given[i]);
      sample.counted = confident_class(p, told.thresholds);
      sums.counts.add(own.given[i], sample.counted);
      if (sample.counted == own.given[i]) {
        sums.confident.add(sample.label_score, own.given[i]);
      }
    }
    const double distance = own.distance[i] / told.distance;
    sums.distance.add(on_log_scale(distance));
    sample.outlier_score = math::pow(2.0, -std::min(distance, 1000.0));
    sample.is_outlier_issue = sample.outlier_score < kOutlier;
    look_at_item(own.stats[i], told, sample);
    const double image = image_distance(own.stats[i], told);
    sums.image_distance += image;
    sample.input_noise_score = 1.0 / (1.0 + image / 9.0);
    sample.is_input_noise_issue = sample.input_noise_score < kInputNoise;
  }
  for (std::int64_t c = 0; c < own.classes; ++c) {
    if (sums.confident.samples()[static_cast<std::size_t>(c)] < least) {
      sums.confident.forget(c);
    }
  }
  sums.mixture = label_mixture(own, found);
  sums.duplicates = find_near_duplicates(own, found);
  return sums;
}

void flag_labels(std::span<const std::int64_t> given, std::span<const double> bars,
                 std::span<SampleFinding> found) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    SampleFinding& sample = found[i];
    sample.is_label_issue =
        sample.judged && sample.label_score < bars[static_cast<std::size_t>(given[i])];
    sample.suggested = sample.is_label_issue ? sample.predicted : kNoSuggestion;
  }
}

ImageBytes image_at(std::span<const std::uint8_t> bytes, std::int64_t channels, std::int64_t height,
                    std::int64_t width, std::size_t number) {
  const auto size = static_cast<std::size_t>(channels * height * width);
  return {bytes.subspan(number * size, size), channels, height, width};
}

}  // namespace winnow::audit

#include "winnow/audit/findings.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <set>

#include "winnow/base/math.h"
#include "winnow/base/sha256.h"
#include "winnow/stats/mixture.h"

namespace winnow {
namespace {

// cleanlab's thresholds, spec: audit 4
constexpr double kDark = 0.32;
constexpr double kLight = 0.05;
constexpr double kBlurry = 0.29;
constexpr double kLowInformation = 0.3;
constexpr double kOutlier = 0.125;
constexpr double kItemShare = 0.01;  // a finding about an item is one about few
constexpr double kInputNoise = 0.5;
constexpr std::int64_t kRareClass = 5;
constexpr std::size_t kMixtureSamples = 10;

ImageBytes bytes_at(const at::Tensor& images, std::int64_t sample) {
  const std::int64_t size = images.size(1) * images.size(2) * images.size(3);
  return {{images.data_ptr<std::uint8_t>() + sample * size, static_cast<std::size_t>(size)},
          images.size(1),
          images.size(2),
          images.size(3)};
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

class Finder {
 public:
  explicit Finder(const FindingsInput& input)
      : input_(input), judgement_(input.judgement), classes_(input.judgement.classes) {
    found_.samples.resize(input.held.size());
    found_.clients.resize(static_cast<std::size_t>(input.clients));
    places_.resize(found_.clients.size());
    for (std::size_t i = 0; i < input.held.size(); ++i) {
      places_[client_of(i)].push_back(i);
    }
  }

  AuditFindings find() {
    judge_labels();
    judge_images();
    find_duplicates();
    for (std::size_t client = 0; client < found_.clients.size(); ++client) {
      describe(client);
    }
    return std::move(found_);
  }

 private:
  std::size_t client_of(std::size_t i) const {
    return static_cast<std::size_t>(input_.held[i].client);
  }
  std::int64_t given(std::size_t i) const { return input_.held[i].given; }

  // spec: audit 2
  void judge_labels() {
    std::vector<ThresholdSums> sums(found_.clients.size(), ThresholdSums(classes_));
    ThresholdSums all(classes_);
    for (std::size_t i = 0; i < found_.samples.size(); ++i) {
      SampleFinding& sample = found_.samples[i];
      sample.judged = judgement_.judged[i];
      const std::span<const float> p = judgement_.row(i);
      sample.predicted = std::ranges::max_element(p) - p.begin();
      if (sample.judged) {
        sums[client_of(i)].add(p, given(i));
        sample.label_score = label_score(p, given(i));
      }
      ++(sample.judged ? found_.judged : found_.not_judged);
    }
    for (const ThresholdSums& own : sums) {
      all += own;
    }
    found_.thresholds = all.thresholds();
    counts_.assign(found_.clients.size(), JointCounts(classes_));
    JointCounts whole(classes_);
    for (std::size_t i = 0; i < found_.samples.size(); ++i) {
      if (found_.samples[i].judged) {
        found_.samples[i].counted = confident_class(judgement_.row(i), found_.thresholds);
        counts_[client_of(i)].add(given(i), found_.samples[i].counted);
      }
    }
    for (std::size_t client = 0; client < counts_.size(); ++client) {
      whole += counts_[client];
      ClientFinding& finding = found_.clients[client];
      finding.judged = std::accumulate(sums[client].samples().begin(), sums[client].samples().end(),
                                       std::int64_t{0});
      finding.noise_rate =
          noise_rate(calibrated_joint(counts_[client], sums[client].samples()), classes_);
      finding.interval = wilson(finding.noise_rate, static_cast<double>(finding.judged));
      finding.too_few = finding.judged < kFewSamples;
    }
    found_.noise_rate = noise_rate(calibrated_joint(whole, all.samples()), classes_);
    found_.interval = wilson(found_.noise_rate, static_cast<double>(found_.judged));
    flag_labels();
    confusion_ = honest_confusion(counts_);
  }

  void flag_labels() {
    std::vector<double> sum(static_cast<std::size_t>(classes_), 0.0);
    std::vector<double> count(sum.size(), 0.0);
    for (std::size_t i = 0; i < found_.samples.size(); ++i) {
      if (found_.samples[i].judged && found_.samples[i].counted == given(i)) {
        sum[static_cast<std::size_t>(given(i))] += found_.samples[i].label_score;
        count[static_cast<std::size_t>(given(i))] += 1.0;
      }
    }
    for (std::size_t i = 0; i < found_.samples.size(); ++i) {
      SampleFinding& sample = found_.samples[i];
      const auto label = static_cast<std::size_t>(given(i));
      const double bar =
          count[label] > 0.0 ? std::clamp(sum[label] / count[label] - 0.5, 0.0, 0.5) : 0.25;
      sample.is_label_issue = sample.judged && sample.counted >= 0 && sample.counted != given(i) &&
                              sample.label_score < bar;
    }
  }

  // spec: audit 4
  void judge_images() {
    std::array<StatHistogram, 4> scores;
    const auto cleanlab = [](const ImageStats& stats) {
      return std::array{stats.dark_score, stats.light_score, stats.blurry_score,
                        stats.low_information_score};
    };
    for (std::size_t i = 0; i < found_.samples.size(); ++i) {
      for (std::size_t s = 0; s < kImageStats; ++s) {
        population_[s].add(input_.stats[i].values[s]);
      }
      const auto own = cleanlab(input_.stats[i]);
      for (std::size_t s = 0; s < own.size(); ++s) {
        scores[s].add(own[s]);
      }
    }
    for (std::size_t s = 0; s < kImageStats; ++s) {
      const StatHistogram& all = population_[s];
      middle_[s] = all.quantile(0.5);
      spread_[s] = std::max((all.quantile(0.75) - all.quantile(0.25)) / 1.35, 0.01);
    }
    for (std::size_t i = 0; i < found_.samples.size(); ++i) {
      SampleFinding& sample = found_.samples[i];
      const auto own = cleanlab(input_.stats[i]);
      constexpr std::array kBelow{kDark, kLight, kBlurry, kLowInformation};
      const std::array<bool*, 4> flags{&sample.is_dark_issue, &sample.is_light_issue,
                                       &sample.is_blurry_issue, &sample.is_low_information_issue};
      for (std::size_t s = 0; s < own.size(); ++s) {
        *flags[s] = own[s] < kBelow[s] && scores[s].rank(own[s]) < kItemShare;
      }
      sample.dark_score = own[0];
      sample.light_score = own[1];
      sample.blurry_score = own[2];
      sample.low_information_score = own[3];
      sample.outlier_score = math::pow(2.0, -std::min(judgement_.distance[i], 1000.0));
      sample.is_outlier_issue = sample.outlier_score < kOutlier;
      sample.input_noise_score = 1.0 / (1.0 + image_distance(i) / 9.0);
      sample.is_input_noise_issue = sample.input_noise_score < kInputNoise;
    }
  }

  // Mean square of the image's statistics in spreads of the population.
  double image_distance(std::size_t i) const {
    double sum = 0.0;
    for (std::size_t s = 0; s < kImageStats; ++s) {
      const double away = (input_.stats[i].values[s] - middle_[s]) / spread_[s];
      sum += std::min(away * away, 100.0);
    }
    return sum / static_cast<double>(kImageStats);
  }

  void find_duplicates() {
    std::map<std::string, std::vector<std::size_t>> by_digest;
    for (std::size_t client = 0; client < places_.size(); ++client) {
      const std::vector<std::size_t>& own = places_[client];
      std::vector<std::uint64_t> hashes;
      for (const std::size_t i : own) {
        hashes.push_back(input_.stats[i].hash);
        by_digest[keyed_digest(i)].push_back(i);
      }
      const auto groups = near_duplicates(hashes, [&](std::size_t a, std::size_t b) {
        return difference(own[a], own[b]) <= kNearLevels;
      });
      for (std::size_t g = 0; g < groups.size(); ++g) {
        for (const std::size_t member : groups[g]) {
          SampleFinding& sample = found_.samples[own[member]];
          sample.near_duplicate_set = static_cast<std::int64_t>(g);
          sample.is_near_duplicate_issue = true;
          double nearest = 255.0;
          for (const std::size_t other : groups[g]) {
            if (other != member) {
              nearest = std::min(nearest, difference(own[member], own[other]));
            }
          }
          sample.near_duplicate_score = std::min(1.0, nearest / (2.0 * kNearLevels));
          ++found_.clients[client].duplicates_inside;
        }
      }
    }
    for (const auto& [digest, members] : by_digest) {
      std::set<std::size_t> owners;
      for (const std::size_t i : members) {
        owners.insert(client_of(i));
      }
      for (const std::size_t i : members) {
        found_.clients[client_of(i)].duplicates_across += owners.size() > 1 ? 1 : 0;
      }
    }
  }

  double difference(std::size_t a, std::size_t b) const {
    return mean_difference(bytes_at(input_.images, input_.held[a].sample),
                           bytes_at(input_.images, input_.held[b].sample));
  }

  // What two owners may compare without showing an image: nobody without the key can try images.
  std::string keyed_digest(std::size_t i) const {
    const ImageBytes image = bytes_at(input_.images, input_.held[i].sample);
    Sha256 digest;
    digest.update("winnow audit " + std::to_string(input_.key) + "\n");
    digest.update(std::as_bytes(image.bytes));
    return digest.hex();
  }

  void describe(std::size_t client) {
    ClientFinding& finding = found_.clients[client];
    const std::vector<std::size_t>& own = places_[client];
    finding.samples = std::ssize(own);
    if (own.empty()) {
      finding.verdict = Verdict::nothing_wrong;
      finding.probabilities[0] = 1.0;
      return;
    }
    finding.kind = find_kind(counts_[client], confusion_);
    std::vector<std::int64_t> held(static_cast<std::size_t>(classes_));
    for (const std::size_t i : own) {
      ++held[static_cast<std::size_t>(given(i))];
      finding.label_issues += found_.samples[i].is_label_issue ? 1 : 0;
      finding.input_issues += found_.samples[i].is_input_noise_issue ? 1 : 0;
    }
    for (std::int64_t c = 0; c < classes_; ++c) {
      const std::int64_t count = held[static_cast<std::size_t>(c)];
      const bool others = held_by_all(c) > count;
      if (count == 0 && others) {
        finding.missing_classes.push_back(c);
      } else if (count > 0 && count < kRareClass) {
        finding.rare_classes.push_back(c);
      }
    }
    for (std::size_t s = 0; s < kImageStats; ++s) {
      double sum = 0.0;
      for (const std::size_t i : own) {
        sum += population_[s].rank(input_.stats[i].values[s]) - 0.5;
      }
      finding.image_shift[s] = sum / static_cast<double>(own.size());
    }
    finding.features = features_of(client, held);
    finding.probabilities = verdict_probabilities(finding.features);
    finding.verdict = static_cast<Verdict>(std::ranges::max_element(finding.probabilities) -
                                           finding.probabilities.begin());
  }

  std::int64_t held_by_all(std::int64_t c) {
    if (class_totals_.empty()) {
      class_totals_.resize(static_cast<std::size_t>(classes_));
      for (std::size_t i = 0; i < input_.held.size(); ++i) {
        ++class_totals_[static_cast<std::size_t>(given(i))];
      }
    }
    return class_totals_[static_cast<std::size_t>(c)];
  }

  // Ranks of a number among all samples, by place; made once.
  static std::vector<double> ranks_of(const std::vector<double>& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return values[i]; });
    std::vector<double> ranks(values.size());
    for (std::size_t r = 0; r < order.size(); ++r) {
      ranks[order[r]] = (static_cast<double>(r) + 0.5) / static_cast<double>(order.size()) - 0.5;
    }
    return ranks;
  }

  // spec: audit 5
  VerdictFeatures features_of(std::size_t client, const std::vector<std::int64_t>& held) {
    if (gradient_ranks_.empty()) {
      gradient_ranks_ = ranks_of(judgement_.gradient_norm);
      distance_ranks_ = ranks_of(judgement_.distance);
    }
    const ClientFinding& finding = found_.clients[client];
    const std::vector<std::size_t>& own = places_[client];
    const auto size = static_cast<double>(own.size());
    const auto counted = static_cast<double>(counts_[client].total());
    const KindFit& none = finding.kind.fit(NoiseKind::none);
    const KindFit& best = finding.kind.fit(finding.kind.kind);
    double gradient = 0.0;
    double distance = 0.0;
    double image = 0.0;
    for (const std::size_t i : own) {
      gradient += gradient_ranks_[i] / size;
      distance += distance_ranks_[i] / size;
      image += image_distance(i) / size;
    }
    double mix = 0.0;
    for (std::int64_t c = 0; c < classes_; ++c) {
      mix += 0.5 * std::abs(static_cast<double>(held[static_cast<std::size_t>(c)]) / size -
                            static_cast<double>(held_by_all(c)) /
                                static_cast<double>(input_.held.size()));
    }
    const double most_shift = std::abs(*std::ranges::max_element(
        finding.image_shift, {}, [](double shift) { return std::abs(shift); }));
    return {finding.kind.rate,
            std::clamp((none.bic - best.bic) / (2.0 * std::max(counted, 1.0)), 0.0, 1.0),
            2.0 * std::max(0.0, finding.kind.rate - 0.5) *
                (finding.kind.fit(NoiseKind::pair).weight +
                 finding.kind.fit(NoiseKind::class_dependent).weight),
            std::clamp(label_mixture(client), 0.0, 2.0),
            2.0 * most_shift,
            std::clamp(math::log(std::max(image, 0.05)), -3.0, 3.0),
            2.0 * gradient,
            2.0 * distance,
            judgement_.update_cosine[client],
            std::clamp(math::log(std::max(judgement_.update_norm[client], 1e-3)), -2.0, 2.0),
            mix,
            disagreement(client),
            2.0 * finding.image_shift[static_cast<std::size_t>(ImageStat::noise)],
            2.0 * finding.image_shift[static_cast<std::size_t>(ImageStat::sharpness)]};
  }

  // Off-diagonal counts beyond what the honest confusion leads one to expect, as a share.
  double disagreement(std::size_t client) const {
    double seen = 0.0;
    double due = 0.0;
    double all = 0.0;
    for (std::int64_t c = 0; c < classes_; ++c) {
      const auto row = static_cast<double>(counts_[client].row(c));
      all += row;
      seen += row - static_cast<double>(counts_[client].at(c, c));
      due += row * (1.0 - confusion_.at(c, c));
    }
    return all > 0.0 ? (seen - due) / all : 0.0;
  }

  // spec: audit 2
  double label_mixture(std::size_t client) const {
    std::map<std::int64_t, std::vector<double>> scores;
    for (const std::size_t i : places_[client]) {
      if (found_.samples[i].judged) {
        scores[given(i)].push_back(found_.samples[i].label_score);
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

  const FindingsInput& input_;
  const Judgement& judgement_;
  std::int64_t classes_;
  AuditFindings found_;
  std::vector<std::vector<std::size_t>> places_;  // of each client in `held`
  std::vector<JointCounts> counts_;
  Confusion confusion_;
  std::array<StatHistogram, kImageStats> population_;
  std::array<double, kImageStats> middle_{};
  std::array<double, kImageStats> spread_{};
  std::vector<std::int64_t> class_totals_;
  std::vector<double> gradient_ranks_;
  std::vector<double> distance_ranks_;
};

}  // namespace

std::string ClientFinding::kind_text() const {
  return verdict == Verdict::input_noise ? "distorted images" : std::string(kind_name(kind.kind));
}

AuditFindings make_findings(const FindingsInput& input) {
  return Finder(input).find();
}

std::vector<bool> beside_the_diagonal(std::span<const float> p, std::int64_t classes,
                                      const std::vector<HeldSample>& held) {
  const auto row = [&](std::size_t i) {
    return p.subspan(i * static_cast<std::size_t>(classes), static_cast<std::size_t>(classes));
  };
  ThresholdSums sums(classes);
  for (std::size_t i = 0; i < held.size(); ++i) {
    sums.add(row(i), held[i].given);
  }
  const std::vector<double> thresholds = sums.thresholds();
  std::vector<bool> wrong(held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    const std::int64_t counted = confident_class(row(i), thresholds);
    wrong[i] = counted >= 0 && counted != held[i].given;
  }
  return wrong;
}

}  // namespace winnow

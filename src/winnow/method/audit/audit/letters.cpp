#include "winnow/method/audit/audit/letters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "winnow/base/error.h"

namespace winnow::audit {
namespace {

constexpr auto kBins = static_cast<std::int64_t>(StatHistogram::kBins);
constexpr std::int64_t kImageBins = static_cast<std::int64_t>(kImageStats + kItemScores) * kBins;
constexpr auto kStats = static_cast<std::int64_t>(kImageStats);
constexpr double kNoThreshold = 2.0;  // a probability that nothing has

using Numbers = std::vector<double>;

Numbers numbers_of(const std::vector<std::int64_t>& counts) {
  return {counts.begin(), counts.end()};
}

void append(const StatHistogram& histogram, Numbers& to) {
  to.insert(to.end(), histogram.counts().begin(), histogram.counts().end());
}

// Whole numbers from 0 to `most`, or nothing.
std::optional<std::vector<std::int64_t>> counts_in(std::span<const double> values,
                                                   std::int64_t most) {
  std::vector<std::int64_t> counts;
  for (const double value : values) {
    if (!(value >= 0.0 && value <= static_cast<double>(most)) || value != std::floor(value)) {
      return std::nullopt;
    }
    counts.push_back(static_cast<std::int64_t>(value));
  }
  return counts;
}

// A histogram of exactly so many samples, or nothing.
std::optional<StatHistogram> histogram_in(std::span<const double> values, std::int64_t samples) {
  const auto counts = counts_in(values, samples);
  if (!counts) {
    return std::nullopt;
  }
  StatHistogram::Counts bins{};
  std::ranges::copy(*counts, bins.begin());
  StatHistogram histogram(bins);
  return histogram.total() == samples ? std::optional(histogram) : std::nullopt;
}

std::span<const double> part(const Numbers& values, std::size_t number) {
  return std::span(values).subspan(number * StatHistogram::kBins, StatHistogram::kBins);
}

// Sums of values between 0 and 1, each of so many as `counts` says.
bool sums_fit(const Numbers& sums, const std::vector<std::int64_t>& counts) {
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (!(sums[c] >= 0.0 && sums[c] <= static_cast<double>(counts[c]))) {
      return false;
    }
  }
  return true;
}

template <std::size_t kSize>
std::array<double, kSize> array_of(const Numbers& values) {
  std::array<double, kSize> array{};
  if (values.size() != kSize) {
    throw Error(ErrorKind::peer, "a list of an audit is not as long as it has to be");
  }
  std::ranges::copy(values, array.begin());
  return array;
}

}  // namespace

std::vector<Exchange> exchanges(std::int64_t classes) {
  const Length by_class = Length::exactly(classes, "C");
  const auto numbers = [](const char* name, const char* tells, Length length) {
    return field::numbers(name, tells, std::move(length)).at_least(0.0);
  };
  return {
      {"train",
       {field::round(), field::global_model(),
        field::whole("fold", "which of the federations this is"),
        field::whole("place", "its number in that federation, for random draws")},
       "train_done",
       {field::trained_model(), field::samples()}},
      {"sums",
       {field::model("model", "the model of its fold, which never saw its samples")},
       "sums_done",
       {numbers("held", "how many of its samples were given each class", by_class),
        numbers("sums",
                "by class, the sum of the probabilities that its samples have for the label "
                "they were given",
                by_class),
        numbers("images",
                "how many of its images lie in each of 512 bins of eight statistics and four "
                "scores",
                Length::exactly(kImageBins, "6144")),
        numbers("gradients",
                "how many of its samples lie in each of 512 bins of the norm of the head's "
                "gradient",
                Length::exactly(kBins, "512")),
        numbers("distances",
                "how many of its samples lie in each of 512 bins of the distance to their "
                "nearest neighbours",
                Length::exactly(kBins, "512"))}},
      {"counts",
       {numbers("thresholds", "by class, the mean probability of the samples of its fold",
                by_class),
        numbers("known", "by class, 1 where its model has seen the class", by_class),
        numbers("middle", "medians of the images' statistics", Length::exactly(kStats, "8")),
        numbers("spread", "how far these spread", Length::exactly(kStats, "8")),
        numbers("rare", "the scores below which few images lie",
                Length::exactly(static_cast<std::int64_t>(kItemScores), "4")),
        field::number("distance", "the median distance to neighbours in its fold").at_least(0.0)},
       "counts_done",
       {numbers("counts",
                "for every pair of classes, how many of its samples are labelled as one and "
                "confidently predicted as the other",
                Length::exactly(classes * classes, "C^2")),
        numbers("confident", "how many are confidently predicted as the class they were given",
                by_class),
        numbers("scores", "by class, the sum of the label scores of these samples", by_class),
        numbers("distances", "its distances again, as multiples of the fold's median",
                Length::exactly(kBins, "512")),
        field::number(
            "image_distance",
            "how far its images lie from the middle of all clients' images, summed over its images")
            .at_least(0.0),
        field::number("mixture", "how much better two groups of label scores fit than one")
            .at_least(0.0),
        field::whole("duplicates", "how many of its images are near duplicates")
            .counting(Counts::some_samples)}},
      {"close",
       {numbers("bars", "by class, the label score below which a label is an issue", by_class),
        field::number("noise_rate", "its estimated share of wrong labels").between(0.0, 1.0),
        field::number("low", "the lower end of the interval of this estimate").between(0.0, 1.0),
        field::number("high", "the upper end of the interval").between(0.0, 1.0),
        field::whole("kind", "number of the kind of label noise").between(0.0, 4.0),
        field::number("excess_rate", "wrong labels beyond the model's own errors")
            .between(0.0, 1.0),
        field::numbers("verdicts", "the probability of each verdict",
                       Length::exactly(static_cast<std::int64_t>(kVerdicts), "5"))
            .between(0.0, 1.0)},
       "close_done",
       {field::whole("label_issues", "how many of its labels are issues")
            .counting(Counts::some_samples),
        field::whole("input_issues", "how many of its images look distorted")
            .counting(Counts::some_samples)}}};
}

Message write_first(const FirstSums& sums) {
  Numbers images;
  for (const StatHistogram& histogram : sums.stats) {
    append(histogram, images);
  }
  for (const StatHistogram& histogram : sums.scores) {
    append(histogram, images);
  }
  Numbers gradients;
  append(sums.gradient, gradients);
  Numbers distances;
  append(sums.distance, distances);
  return Message("sums_done")
      .set("held", numbers_of(sums.held))
      .set("sums", sums.labels.sums())
      .set("images", std::move(images))
      .set("gradients", std::move(gradients))
      .set("distances", std::move(distances));
}

std::optional<FirstSums> read_first(const Message& reply, const Scale& scale,
                                    std::int64_t samples) {
  FirstSums first(scale.classes);
  first.samples = samples;
  const auto held = counts_in(reply.get<Numbers>("held"), samples);
  const auto& sums = reply.get<Numbers>("sums");
  if (!held || std::accumulate(held->begin(), held->end(), std::int64_t{0}) > samples ||
      std::ranges::any_of(*held, [&](std::int64_t n) { return n > 0 && n < scale.least; }) ||
      !sums_fit(sums, *held)) {
    return std::nullopt;
  }
  first.held = *held;
  first.labels = ThresholdSums(*held, sums);
  const auto& images = reply.get<Numbers>("images");
  for (std::size_t s = 0; s < kImageStats + kItemScores; ++s) {
    const auto histogram = histogram_in(part(images, s), samples);
    if (!histogram) {
      return std::nullopt;
    }
    (s < kImageStats ? first.stats[s] : first.scores[s - kImageStats]) = *histogram;
  }
  const auto gradients = histogram_in(reply.get<Numbers>("gradients"), samples);
  const auto distances = histogram_in(reply.get<Numbers>("distances"), samples);
  if (!gradients || !distances) {
    return std::nullopt;
  }
  first.gradient = *gradients;
  first.distance = *distances;
  return first;
}

Message write_told(const Told& told, const std::vector<bool>& known) {
  Numbers thresholds = told.thresholds;
  std::ranges::for_each(thresholds, [](double& t) { t = std::isfinite(t) ? t : kNoThreshold; });
  return Message("counts")
      .set("thresholds", std::move(thresholds))
      .set("known", Numbers(known.begin(), known.end()))
      .set("middle", Numbers(told.middle.begin(), told.middle.end()))
      .set("spread", Numbers(told.spread.begin(), told.spread.end()))
      .set("rare", Numbers(told.rare.begin(), told.rare.end()))
      .set("distance", told.distance);
}

ToldClient read_told(const Message& task) {
  ToldClient read{.told = {.thresholds = task.get<Numbers>("thresholds"),
                           .middle = array_of<kImageStats>(task.get<Numbers>("middle")),
                           .spread = array_of<kImageStats>(task.get<Numbers>("spread")),
                           .rare = array_of<kItemScores>(task.get<Numbers>("rare")),
                           .distance = task.get<double>("distance")},
                  .known = {}};
  for (const double known : task.get<Numbers>("known")) {
    read.known.push_back(known > 0.0);
  }
  return read;
}

Message write_second(const SecondSums& sums) {
  Numbers distances;
  append(sums.distance, distances);
  return Message("counts_done")
      .set("counts", numbers_of(sums.counts.counts()))
      .set("confident", numbers_of(sums.confident.samples()))
      .set("scores", sums.confident.sums())
      .set("distances", std::move(distances))
      .set("image_distance", sums.image_distance)
      .set("mixture", sums.mixture)
      .set("duplicates", static_cast<std::uint32_t>(sums.duplicates));
}

std::optional<SecondSums> read_second(const Message& reply, const Scale& scale,
                                      const FirstSums& first) {
  SecondSums second(scale.classes);
  auto counts = counts_in(reply.get<Numbers>("counts"), first.samples);
  const auto confident = counts_in(reply.get<Numbers>("confident"), first.samples);
  const auto& scores = reply.get<Numbers>("scores");
  const auto distances = histogram_in(reply.get<Numbers>("distances"), first.samples);
  if (!counts || !confident || !distances || !sums_fit(scores, *confident)) {
    return std::nullopt;
  }
  second.counts = JointCounts(scale.classes, std::move(*counts));
  for (std::int64_t c = 0; c < scale.classes; ++c) {
    const auto at = static_cast<std::size_t>(c);
    if (second.counts.row(c) > first.held[at] || (*confident)[at] > second.counts.at(c, c)) {
      return std::nullopt;
    }
  }
  second.confident = ThresholdSums(*confident, scores);
  second.distance = *distances;
  second.image_distance = reply.get<double>("image_distance");
  second.mixture = reply.get<double>("mixture");
  second.duplicates = reply.get<std::uint32_t>("duplicates");
  return second;
}

Message write_outcome(const Outcome& outcome) {
  return Message("close")
      .set("bars", outcome.bars)
      .set("noise_rate", outcome.noise_rate)
      .set("low", outcome.interval.low)
      .set("high", outcome.interval.high)
      .set("kind", static_cast<std::uint32_t>(outcome.kind))
      .set("excess_rate", outcome.excess_rate)
      .set("verdicts", Numbers(outcome.probabilities.begin(), outcome.probabilities.end()));
}

Outcome read_outcome(const Message& task) {
  const auto kind = std::min<std::size_t>(task.get<std::uint32_t>("kind"), kNoiseKinds.size() - 1);
  return {.bars = task.get<Numbers>("bars"),
          .noise_rate = task.get<double>("noise_rate"),
          .interval = {task.get<double>("low"), task.get<double>("high")},
          .kind = kNoiseKinds[kind],
          .excess_rate = task.get<double>("excess_rate"),
          .probabilities = array_of<kVerdicts>(task.get<Numbers>("verdicts"))};
}

}  // namespace winnow::audit

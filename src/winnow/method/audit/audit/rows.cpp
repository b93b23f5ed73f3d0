#include "winnow/method/audit/audit/rows.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "winnow/base/error.h"

namespace winnow::audit {
namespace {

constexpr std::array kFlags{&SampleFinding::judged,
                            &SampleFinding::is_label_issue,
                            &SampleFinding::is_outlier_issue,
                            &SampleFinding::is_near_duplicate_issue,
                            &SampleFinding::is_dark_issue,
                            &SampleFinding::is_light_issue,
                            &SampleFinding::is_blurry_issue,
                            &SampleFinding::is_low_information_issue,
                            &SampleFinding::is_input_noise_issue};
constexpr std::array kNumbers{&SampleFinding::predicted, &SampleFinding::counted,
                              &SampleFinding::near_duplicate_set};
constexpr std::array kSampleScores{
    &SampleFinding::label_score,           &SampleFinding::outlier_score,
    &SampleFinding::near_duplicate_score,  &SampleFinding::dark_score,
    &SampleFinding::light_score,           &SampleFinding::blurry_score,
    &SampleFinding::low_information_score, &SampleFinding::input_noise_score};
constexpr auto kWidth =
    static_cast<std::int64_t>(kFlags.size() + kNumbers.size() + kSampleScores.size());

double in_range(double value, double low, double high, bool whole) {
  if (!(value >= low && value <= high) || (whole && value != std::floor(value))) {
    throw Error(ErrorKind::run, fmt::format("{}: {} is no value of a finding", kRowsName, value));
  }
  return value;
}

SampleFinding finding_in(const double* row, std::int64_t samples, std::int64_t classes) {
  SampleFinding finding;
  for (const auto flag : kFlags) {
    finding.*flag = in_range(*row++, 0.0, 1.0, true) > 0.0;
  }
  const std::array<std::int64_t, kNumbers.size()> low{0, -1, -1};
  const std::array<std::int64_t, kNumbers.size()> high{classes - 1, classes - 1, samples - 1};
  for (std::size_t n = 0; n < kNumbers.size(); ++n) {
    finding.*kNumbers[n] = static_cast<std::int64_t>(in_range(
        *row++, static_cast<double>(low[n]), static_cast<double>(high[n]), /*whole=*/true));
  }
  for (const auto score : kSampleScores) {
    finding.*score = in_range(*row++, 0.0, 1.0, /*whole=*/false);
  }
  finding.suggested = finding.is_label_issue ? finding.predicted : kNoSuggestion;
  return finding;
}

Outcome outcome_in(const CheckedJson& json) {
  const auto share = [&](const char* name) { return json.at(name).number(0.0, 1.0); };
  Outcome outcome{.bars = {},
                  .noise_rate = share("noise_rate"),
                  .interval = {share("low"), share("high")},
                  .kind = kNoiseKinds[static_cast<std::size_t>(
                      json.at("kind").whole(0, std::ssize(kNoiseKinds) - 1))],
                  .excess_rate = share("excess_rate")};
  const std::vector<CheckedJson> verdicts = json.at("verdicts").elements();
  if (verdicts.size() != kVerdicts) {
    throw Error(ErrorKind::run, fmt::format("{}: {} verdicts, expected {}", kOutcomeName,
                                            verdicts.size(), kVerdicts));
  }
  for (std::size_t v = 0; v < kVerdicts; ++v) {
    outcome.probabilities[v] = verdicts[v].number(0.0, 1.0);
  }
  return outcome;
}

}  // namespace

at::Tensor rows_of(const std::vector<SampleFinding>& found) {
  at::Tensor rows = at::empty({std::ssize(found), kWidth}, at::kDouble);
  auto* next = rows.data_ptr<double>();
  for (const SampleFinding& finding : found) {
    for (const auto flag : kFlags) {
      *next++ = finding.*flag ? 1.0 : 0.0;
    }
    for (const auto number : kNumbers) {
      *next++ = static_cast<double>(finding.*number);
    }
    for (const auto score : kSampleScores) {
      *next++ = finding.*score;
    }
  }
  return rows;
}

Kept read_kept(const Archive& archive, std::int64_t samples, std::int64_t classes) {
  Kept kept;
  if (const at::Tensor stored = archive.tensor(kRowsName, at::kDouble, {samples, kWidth});
      stored.defined()) {
    const at::Tensor rows = stored.contiguous();
    for (std::int64_t i = 0; i < samples; ++i) {
      kept.found.push_back(finding_in(rows.data_ptr<double>() + i * kWidth, samples, classes));
    }
  }
  if (const auto outcome = archive.find(kOutcomeName)) {
    kept.outcome = outcome_in(*outcome);
  }
  return kept;
}

Json outcome_json(const Outcome& outcome) {
  return {{"noise_rate", outcome.noise_rate},   {"low", outcome.interval.low},
          {"high", outcome.interval.high},      {"kind", static_cast<std::int64_t>(outcome.kind)},
          {"excess_rate", outcome.excess_rate}, {"verdicts", outcome.probabilities}};
}

}  // namespace winnow::audit

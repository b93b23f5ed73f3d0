#include "winnow/audit/findings.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "winnow/base/sha256.h"
#include "winnow/method/audit/audit/own_samples.h"
#include "winnow/stats/wrong_share.h"
#include "winnow/train/nets.h"

namespace winnow {
namespace {

constexpr double kLeastRight = 0.5;  // the probability from which a label passes for right

ImageBytes bytes_at(const at::Tensor& images, std::int64_t sample) {
  return audit::image_at(
      {images.data_ptr<std::uint8_t>(), static_cast<std::size_t>(images.numel())}, images.size(1),
      images.size(2), images.size(3), static_cast<std::size_t>(sample));
}

// The places of each client in `held`, where they lie next to each other: first and number.
std::vector<std::pair<std::size_t, std::size_t>> places_of(const FindingsInput& input) {
  std::vector<std::pair<std::size_t, std::size_t>> places(static_cast<std::size_t>(input.clients));
  for (std::size_t i = 0; i < input.held.size(); ++i) {
    auto& [first, count] = places[static_cast<std::size_t>(input.held[i].client)];
    first = count == 0 ? i : first;
    ++count;
  }
  return places;
}

// What two owners may compare without showing an image: nobody without the key can try images.
std::string keyed_digest(const FindingsInput& input, const HeldSample& sample) {
  Sha256 digest;
  digest.update("winnow audit " + std::to_string(input.key) + "\n");
  digest.update(std::as_bytes(bytes_at(input.images, sample.sample).bytes));
  return digest.hex();
}

void find_duplicates_across(const FindingsInput& input, std::vector<ClientFinding>& clients) {
  std::map<std::string, std::vector<std::size_t>> owners_of;
  for (const HeldSample& sample : input.held) {
    owners_of[keyed_digest(input, sample)].push_back(static_cast<std::size_t>(sample.client));
  }
  for (const auto& [digest, owners] : owners_of) {
    if (std::set(owners.begin(), owners.end()).size() > 1) {
      for (const std::size_t client : owners) {
        ++clients[client].duplicates_across;
      }
    }
  }
}

// Of each repetition, as each has other models.
std::vector<WrongShare> fit_repetitions(const FindingsInput& input, const std::atomic<bool>* stop) {
  const Judgement& judgement = input.judgement;
  std::vector<std::int64_t> given;
  for (const HeldSample& sample : input.held) {
    given.push_back(sample.given);
  }
  std::vector<WrongShare> fits;
  for (std::size_t r = 0; r < judgement.model_of.size(); ++r) {
    fits.push_back(fit_wrong_share(
        {judgement.classes, judgement.rows_by(r), given, judgement.model_of[r], &judgement.judged},
        stop));
    if (stop != nullptr && stop->load()) {
      throw Interrupted();
    }
  }
  return fits;
}

// The probabilities of a sample's true class, the mean of the repetitions.
std::vector<double> true_class_of(const FindingsInput& input, const std::vector<WrongShare>& fits,
                                  std::size_t place) {
  const Judgement& judgement = input.judgement;
  const auto classes = static_cast<std::size_t>(judgement.classes);
  std::vector<double> truth(classes);
  for (std::size_t r = 0; r < fits.size(); ++r) {
    const std::vector<double> own =
        fits[r].true_class(judgement.rows_by(r).subspan(place * classes, classes),
                           input.held[place].given, judgement.model_of[r][place]);
    std::ranges::transform(truth, own, truth.begin(), [&](double sum, double share) {
      return sum + share / static_cast<double>(fits.size());
    });
  }
  return truth;
}

void judge_label(std::vector<double> truth, std::int64_t given, SampleFinding& sample) {
  double& right = truth[static_cast<std::size_t>(given)];
  sample.label_score = std::clamp(right, 0.0, 1.0);
  sample.is_label_issue = sample.label_score < kLeastRight;
  right = -1.0;  // what is suggested is another one
  sample.suggested =
      sample.is_label_issue ? std::ranges::max_element(truth) - truth.begin() : kNoSuggestion;
}

}  // namespace

AuditFindings make_findings(const FindingsInput& input) {
  const Judgement& judgement = input.judgement;
  const std::int64_t classes = judgement.classes;
  const auto places = places_of(input);
  AuditFindings found;
  std::vector<std::int64_t> given;
  for (std::size_t i = 0; i < input.held.size(); ++i) {
    given.push_back(input.held[i].given);
    ++(judgement.judged[i] ? found.judged : found.not_judged);
  }
  std::vector<audit::OwnSamples> owns;
  std::vector<audit::FirstSums> firsts;
  audit::Population all(classes);
  for (const auto& [first, count] : places) {
    const auto start = first;
    const auto at = static_cast<std::ptrdiff_t>(first);
    owns.push_back(
        {.classes = classes,
         .given = std::span(given).subspan(first, count),
         .p = std::span(judgement.p)
                  .subspan(first * static_cast<std::size_t>(classes),
                           count * static_cast<std::size_t>(classes)),
         .distance = std::span(judgement.distance).subspan(first, count),
         .stats = std::span(input.stats).subspan(first, count),
         .image =
             [&input, start](std::size_t place) {
               return bytes_at(input.images, input.held[start + place].sample);
             },
         .judged = {judgement.judged.begin() + at,
                    judgement.judged.begin() + at + static_cast<std::ptrdiff_t>(count)}});
    firsts.push_back(audit::first_sums(
        owns.back(), std::span(judgement.gradient_norm).subspan(first, count), /*least=*/1));
    all += firsts.back();
  }
  const audit::Told told = audit::tell(all);  // distances are in medians already
  found.thresholds = told.thresholds;
  std::map<std::int64_t, ThresholdSums> folds;
  for (std::size_t c = 0; c < firsts.size(); ++c) {
    folds.try_emplace(judgement.fold_of[c], classes).first->second += firsts[c].labels;
  }
  found.samples.reserve(input.held.size());
  std::vector<audit::SecondSums> seconds;
  for (std::size_t c = 0; c < owns.size(); ++c) {
    const std::int64_t fold = judgement.fold_of[c];
    audit::Told own = told;
    if (fold >= 0) {
      own.thresholds = audit::fold_thresholds(folds.at(fold), all.labels);
    }
    std::vector<SampleFinding> samples;
    seconds.push_back(audit::second_sums(owns[c], own, /*least=*/1, samples));
    found.samples.insert(found.samples.end(), samples.begin(), samples.end());
  }
  std::vector<audit::Member> members;
  std::vector<std::size_t> place_of(seconds.size());
  for (std::size_t c = 0; c < seconds.size(); ++c) {
    place_of[c] = members.size();
    if (firsts[c].samples > 0) {
      members.push_back({&firsts[c], &seconds[c], judgement.fold_of[c]});
    }
  }
  const audit::Pooled pooled(classes, members);
  found.noise_rate = noise_rate(calibrated_joint(pooled.counts, all.labels.samples()), classes);
  found.confident_rate = found.noise_rate;
  found.interval = wilson(found.noise_rate, static_cast<double>(found.judged));
  audit::flag_labels(given, pooled.bars, found.samples);
  for (std::size_t c = 0; c < places.size(); ++c) {
    found.clients.push_back(
        audit::describe(firsts[c], seconds[c], all, pooled, place_of[c],
                        {judgement.update_cosine[c], judgement.update_norm[c]}));
    for (const SampleFinding& sample :
         std::span(found.samples).subspan(places[c].first, places[c].second)) {
      found.clients[c].label_issues += sample.is_label_issue ? 1 : 0;
      found.clients[c].input_issues += sample.is_input_noise_issue ? 1 : 0;
    }
  }
  find_duplicates_across(input, found.clients);
  return found;
}

void judge_labels(const FindingsInput& input, const std::atomic<bool>* stop, AuditFindings& found) {
  found.issues_by_sums.clear();
  for (const SampleFinding& sample : found.samples) {
    found.issues_by_sums.push_back(sample.is_label_issue);
  }
  const std::vector<WrongShare> fits = fit_repetitions(input, stop);
  std::vector<double> wrong(found.clients.size());  // labels, as far as one knows
  std::vector<std::int64_t> issues(found.clients.size());
  for (std::size_t i = 0; i < input.held.size(); ++i) {
    if (input.judgement.judged[i]) {
      const auto client = static_cast<std::size_t>(input.held[i].client);
      SampleFinding& sample = found.samples[i];
      judge_label(true_class_of(input, fits, i), input.held[i].given, sample);
      wrong[client] += 1.0 - sample.label_score;
      issues[client] += sample.is_label_issue ? 1 : 0;
    }
  }
  for (std::size_t c = 0; c < wrong.size(); ++c) {
    ClientFinding& client = found.clients[c];
    const auto judged = static_cast<double>(client.judged);
    client.label_issues = issues[c];
    client.noise_rate = wrong[c] / std::max(1.0, judged);
    client.interval = wilson(client.noise_rate, judged);
  }
  const auto judged = static_cast<double>(found.judged);
  found.noise_rate = std::accumulate(wrong.begin(), wrong.end(), 0.0) / std::max(1.0, judged);
  found.interval = wilson(found.noise_rate, judged);
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

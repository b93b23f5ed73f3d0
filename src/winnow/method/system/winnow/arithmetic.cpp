#include "winnow/method/system/winnow/arithmetic.h"

#include <algorithm>
#include <numeric>

namespace winnow::winnowing {
namespace {

constexpr double kSpread = 0.02;      // of every flip, over all labels
constexpr double kUnreachable = 2.0;  // above every probability

}  // namespace

void declare(Options& options, Params& params) {
  params
      .add("warmup", options.warmup,
           "number of rounds after which clients' labels are examined for the first time")
      .at_least(1)
      .source("spec: winnow 2");
  params.add("every", options.every, "rounds from one examination of the labels to the next")
      .at_least(1)
      .source("spec: winnow 2");
  params
      .add("memory", options.memory,
           "weight of earlier models in the probabilities by which clients judge their samples; 0: "
           "the current model alone")
      .range(0, 0.99)
      .source("spec: winnow 2.1");
  params.add("enter", options.enter, "share of wrong labels from which a client is treated")
      .range(0, 1)
      .source("spec: winnow 2.2");
  params
      .add("leave", options.leave,
           "share of wrong labels below which a client is no longer treated")
      .range(0, 1)
      .source("spec: winnow 2.2");
  params
      .add("doubt", options.doubt,
           "a client is treated only if the probability that its labels are right is at most this")
      .range(0, 1)
      .source("spec: winnow 2.2");
  params
      .add("any_kind", options.any_kind,
           "treat clients with class-dependent noise, too, although a model's own confusions can "
           "look like it")
      .source("spec: winnow 2.2");
  params
      .add("remedy", options.remedy, {{"weigh", Remedy::weigh}, {"none", Remedy::none}},
           "how treated clients train: less on samples whose images speak against their labels "
           "(weigh), or on all samples alike (none: labels are not examined)")
      .source("spec: winnow 4");
  params
      .add("client_mix", options.client_mix,
           "treat the classes that a client mostly has as more likely; false: treat all classes "
           "alike")
      .source("spec: winnow 2.3");
  params
      .add("guard", options.guard,
           "leave models out of the mean if their updates point against the others' or are far too "
           "long")
      .source("spec: winnow 3");
  params
      .add("against", options.against,
           "guard: leave out a client's model if the mean cosine of its updates with the sum of "
           "the others' is below minus this")
      .range(0, 1)
      .source("spec: winnow 3.1");
  params
      .add("reach", options.reach,
           "guard: leave out a model whose update is more than this many times as long as usual")
      .at_least(1)
      .source("spec: winnow 3.2");
  params
      .add(
          "course", options.course,
          "guard: weight of the latest update in the mean cosine of a client's updates; 1: earlier "
          "updates are forgotten")
      .range(0.01, 1)
      .source("spec: winnow 3.1");
}

bool examines(const Options& options, std::int64_t round, std::int64_t rounds) {
  const std::int64_t played = round + 1;
  return options.remedy != Remedy::none && played >= options.warmup && played < rounds &&
         (played - options.warmup) % options.every == 0;
}

// spec: winnow 2.1
std::vector<double> thresholds(const std::map<std::int64_t, ClassMeans>& clients,
                               std::size_t classes) {
  std::vector<double> sum(classes, 0.0);
  std::vector<double> count(classes, 0.0);
  for (const auto& [client, own] : clients) {
    for (std::size_t c = 0; c < classes; ++c) {
      sum[c] += own.count[c] * own.mean[c];
      count[c] += own.count[c];
    }
  }
  std::vector<double> found(classes, kUnreachable);
  for (std::size_t c = 0; c < classes; ++c) {
    if (count[c] > 0.0) {
      found[c] = sum[c] / count[c];
    }
  }
  return found;
}

// spec: winnow 2.3
std::vector<double> trust(const KindFinding& finding, const Confusion& honest, double counts,
                          bool client_mix) {
  const auto classes = static_cast<std::size_t>(honest.classes);
  const auto all = static_cast<double>(classes);
  std::vector<double> trust(classes * classes);
  std::vector<double> meant(classes);  // b_ji for one label i
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = 0; j < classes; ++j) {
      const double held = client_mix ? (finding.mix[j] * counts + 1.0) / (counts + all) : 1.0 / all;
      meant[j] = held * ((1.0 - kSpread) * finding.flips[j * classes + i] + kSpread / all);
    }
    const double given = std::accumulate(meant.begin(), meant.end(), 0.0);
    for (std::size_t k = 0; k < classes; ++k) {
      double usual = 0.0;
      for (std::size_t j = 0; j < classes; ++j) {
        usual += meant[j] / given * honest.rows[j * classes + k];
      }
      trust[i * classes + k] = std::min(1.0, honest.rows[i * classes + k] / usual);
    }
  }
  return trust;
}

// spec: winnow 2.2
std::map<std::int64_t, Labelling> examine(const std::map<std::int64_t, JointCounts>& counts,
                                          const ByClient<Labelling>& before,
                                          const Options& options) {
  std::vector<JointCounts> all;
  all.reserve(counts.size());
  for (const auto& [client, own] : counts) {
    all.push_back(own);
  }
  const Confusion honest = honest_confusion(all);
  std::map<std::int64_t, Labelling> labellings;
  for (const auto& [client, own] : counts) {
    const KindFinding finding = find_kind(own, honest);
    const auto known = before.find(client);
    const bool was = known != before.end() && known->second.doubted;
    Labelling& now = labellings[client];
    now.kind = finding.kind;
    now.rate = finding.rate;
    now.honest = finding.fit(NoiseKind::none).weight;
    const bool told_apart = options.any_kind || finding.kind != NoiseKind::class_dependent;
    now.doubted = finding.kind != NoiseKind::none && told_apart &&
                  (was ? now.rate >= options.leave
                       : now.rate >= options.enter && now.honest <= options.doubt);
    if (now.doubted) {
      now.trust = trust(finding, honest, static_cast<double>(own.total()), options.client_mix);
    }
  }
  return labellings;
}

// spec: winnow 4
std::vector<double> shares(std::span<const float> p, std::span<const std::int64_t> labels,
                           std::span<const double> thresholds, std::span<const double> trust) {
  const std::size_t classes = thresholds.size();
  std::vector<double> shares(labels.size(), 1.0);
  for (std::size_t n = 0; n < labels.size(); ++n) {
    const std::int64_t taken = confident_class(p.subspan(n * classes, classes), thresholds);
    if (taken >= 0) {
      shares[n] =
          trust[static_cast<std::size_t>(labels[n]) * classes + static_cast<std::size_t>(taken)];
    }
  }
  return shares;
}

}  // namespace winnow::winnowing

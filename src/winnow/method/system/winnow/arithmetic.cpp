#include "winnow/method/system/winnow/arithmetic.h"

#include <algorithm>
#include <numeric>

namespace winnow::winnowing {
namespace {

constexpr double kSpread = 0.02;      // of every flip, over all labels
constexpr double kUnreachable = 2.0;  // above every probability
constexpr double kBorneOut = 0.5;     // a label that is at least as likely as not

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
      .add("remedy", options.remedy,
           {{"sift", Remedy::sift}, {"forward", Remedy::forward}, {"none", Remedy::none}},
           "how treated clients train: on samples whose labels the evidence supports (sift), on "
           "all samples with a loss corrected for the noise (forward), or on all samples as given "
           "(none)")
      .source("spec: winnow 4");
  params
      .add("sure", options.sure,
           "sift: probability from which a sample is trained with another class than its label; 1: "
           "hardly ever")
      .range(0, 1)
      .source("spec: winnow 4.1");
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
Thresholds thresholds(const std::map<std::int64_t, ClassMeans>& clients, std::size_t classes) {
  std::vector<double> sum(classes, 0.0);
  std::vector<double> count(classes, 0.0);
  for (const auto& [client, own] : clients) {
    for (std::size_t c = 0; c < classes; ++c) {
      sum[c] += own.count[c] * own.mean[c];
      count[c] += own.count[c];
    }
  }
  const double all = std::accumulate(count.begin(), count.end(), 0.0);
  Thresholds found{std::vector<double>(classes, kUnreachable), std::vector<double>(classes, 0.0)};
  for (std::size_t c = 0; c < classes; ++c) {
    if (count[c] > 0.0) {
      found.values[c] = sum[c] / count[c];
      found.shares[c] = count[c] / all;
    }
  }
  return found;
}

// spec: winnow 2.3
std::vector<double> evidence(const KindFinding& finding, std::span<const double> shares,
                             double counts, bool client_mix) {
  const std::size_t classes = shares.size();
  const auto all = static_cast<double>(classes);
  std::vector<double> evidence(classes * classes);
  for (std::size_t j = 0; j < classes; ++j) {
    const double held = (finding.mix[j] * counts + 1.0) / (counts + all);
    // A class that no label names has no share to be compared with.
    const double likelier = client_mix && shares[j] > 0.0 ? held / shares[j] : 1.0;
    for (std::size_t i = 0; i < classes; ++i) {
      const double flip = (1.0 - kSpread) * finding.flips[j * classes + i] + kSpread / all;
      evidence[j * classes + i] = flip * likelier;
    }
  }
  return evidence;
}

// spec: winnow 2.2
std::map<std::int64_t, Labelling> examine(const std::map<std::int64_t, JointCounts>& counts,
                                          std::span<const double> shares,
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
    now.doubted = finding.kind != NoiseKind::none &&
                  (was ? now.rate >= options.leave
                       : now.rate >= options.enter && now.honest <= options.doubt);
    if (now.doubted) {
      now.evidence =
          evidence(finding, shares, static_cast<double>(own.total()), options.client_mix);
    }
  }
  return labellings;
}

std::vector<double> posterior(std::span<const float> p, std::int64_t label,
                              std::span<const double> evidence) {
  const std::size_t classes = p.size();
  std::vector<double> q(classes);
  for (std::size_t j = 0; j < classes; ++j) {
    q[j] = static_cast<double>(p[j]) * evidence[j * classes + static_cast<std::size_t>(label)];
  }
  const double sum = std::accumulate(q.begin(), q.end(), 0.0);
  if (sum > 0.0) {
    std::ranges::for_each(q, [sum](double& share) { share /= sum; });
  }
  return q;
}

// spec: winnow 4.1
Sifted sift(std::span<const float> p, std::span<const std::int64_t> labels,
            std::span<const double> evidence, double sure) {
  const std::size_t classes = labels.empty() ? 0 : p.size() / labels.size();
  Sifted sifted{{labels.begin(), labels.end()}, std::vector<bool>(labels.size(), false)};
  for (std::size_t n = 0; n < labels.size(); ++n) {
    const std::vector<double> q = posterior(p.subspan(n * classes, classes), labels[n], evidence);
    const auto best = std::ranges::max_element(q);
    if (q[static_cast<std::size_t>(labels[n])] >= kBorneOut) {
      sifted.kept[n] = true;
    } else if (*best > 0.0 && *best >= sure) {
      sifted.labels[n] = best - q.begin();
      sifted.kept[n] = true;
    }
  }
  return sifted;
}

}  // namespace winnow::winnowing

#include "winnow/audit/findings.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>

#include "winnow/base/random.h"
#include "winnow/train/nets.h"

namespace winnow::findings_test {

constexpr std::int64_t kClasses = 4;
constexpr std::int64_t kClients = 6;
constexpr std::int64_t kEach = 300;

// Samples of clients in two folds, judged by models that are right about most of them and unsure of
// all: what they say is the truth about a sample to a power.
struct Drawn {
  Drawn(std::uint64_t seed, double rate) {
    Stream stream(seed, "findings");
    const std::int64_t count = kClients * kEach;
    images = at::empty({count, 1, 8, 8}, at::kByte);
    for (std::int64_t i = 0; i < images.numel(); ++i) {
      images.data_ptr<std::uint8_t>()[i] = static_cast<std::uint8_t>(stream.below(256));
    }
    judgement.classes = kClasses;
    judgement.model_of.emplace_back();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t client = i / kEach;
      const std::vector<double> known = stream.dirichlet(0.1, kClasses);
      const auto label = static_cast<std::int64_t>(stream.categorical(known));
      std::array<double, kClasses> said{};
      double sum = 0.0;
      for (std::size_t c = 0; c < kClasses; ++c) {
        said[c] = std::pow(known[c] + 1e-5, 0.2);
        sum += said[c];
      }
      for (const double share : said) {
        judgement.p.push_back(static_cast<float>(share / sum));
      }
      const bool is_wrong = stream.bernoulli(rate);
      const auto step = 1 + static_cast<std::int64_t>(stream.below(kClasses - 1));
      held.push_back({client, i, is_wrong ? (label + step) % kClasses : label});
      truth.push_back(label);
      judgement.model_of[0].push_back(client % 2);
      stats.push_back(image_stats({{images.data_ptr<std::uint8_t>() + i * 64, 64}, 1, 8, 8}));
    }
    judgement.judged.assign(held.size(), true);
    judgement.gradient_norm.assign(held.size(), 1.0);
    judgement.distance.assign(held.size(), 1.0);
    judgement.update_cosine.assign(kClients, 0.0);
    judgement.update_norm.assign(kClients, 1.0);
    for (std::int64_t client = 0; client < kClients; ++client) {
      judgement.fold_of.push_back(client % 2);
    }
  }

  FindingsInput input() const { return {held, judgement, stats, images, kClients, 1}; }
  bool wrong(std::size_t i) const { return held[i].given != truth[i]; }

  struct Found {
    double called = 0.0;
    double right = 0.0;  // of these
    double wrong = 0.0;  // that there are

    double precision() const { return right / std::max(1.0, called); }
    double recall() const { return right / wrong; }
  };
  Found measure(const AuditFindings& findings) const {
    Found found;
    for (std::size_t i = 0; i < held.size(); ++i) {
      const bool called = findings.samples[i].is_label_issue;
      found.called += called ? 1.0 : 0.0;
      found.wrong += wrong(i) ? 1.0 : 0.0;
      found.right += called && wrong(i) ? 1.0 : 0.0;
    }
    return found;
  }

  at::Tensor images;
  std::vector<HeldSample> held;
  std::vector<std::int64_t> truth;
  std::vector<ImageStats> stats;
  Judgement judgement;
};

TEST(Findings, WrongLabelsAreFoundWhereModelsAreUnsureAndLabelsNoisy) {
  for (const double rate : {0.1, 0.4}) {
    const Drawn drawn(1, rate);
    AuditFindings found = make_findings(drawn.input());
    EXPECT_LT(drawn.measure(found).recall(), 0.2) << "sums leave the bars where nobody is below";
    judge_labels(drawn.input(), nullptr, found);
    EXPECT_GT(drawn.measure(found).precision(), 0.75) << rate;
    EXPECT_GT(drawn.measure(found).recall(), 0.6) << rate;
    EXPECT_NEAR(found.noise_rate, rate, 0.04);
  }
}

TEST(Findings, ALabelIsAnIssueBelowOneHalfAndHasASuggestionThen) {
  const Drawn drawn(2, 0.3);
  AuditFindings found = make_findings(drawn.input());
  judge_labels(drawn.input(), nullptr, found);
  double suggested = 0.0;
  double right = 0.0;
  for (std::size_t i = 0; i < drawn.held.size(); ++i) {
    const SampleFinding& sample = found.samples[i];
    ASSERT_TRUE(sample.label_score >= 0.0 && sample.label_score <= 1.0);
    EXPECT_EQ(sample.is_label_issue, sample.label_score < 0.5);
    if (!sample.is_label_issue) {
      EXPECT_EQ(sample.suggested, kNoSuggestion);
      continue;
    }
    EXPECT_NE(sample.suggested, drawn.held[i].given);
    suggested += drawn.wrong(i) ? 1.0 : 0.0;
    right += sample.suggested == drawn.truth[i] ? 1.0 : 0.0;
  }
  EXPECT_GT(right, 0.7 * suggested);
}

TEST(Findings, RatesAreMeansOfTheProbabilityToBeWrong) {
  const Drawn drawn(3, 0.2);
  AuditFindings found = make_findings(drawn.input());
  const AuditFindings sums = found;
  judge_labels(drawn.input(), nullptr, found);
  double all = 0.0;
  for (std::size_t c = 0; c < kClients; ++c) {
    const ClientFinding& client = found.clients[c];
    double wrong = 0.0;
    double truly = 0.0;
    std::int64_t issues = 0;
    for (std::size_t i = c * kEach; i < (c + 1) * kEach; ++i) {
      wrong += (1.0 - found.samples[i].label_score) / kEach;
      truly += drawn.wrong(i) ? 1.0 / kEach : 0.0;
      issues += found.samples[i].is_label_issue ? 1 : 0;
    }
    EXPECT_NEAR(client.noise_rate, wrong, 1e-12);
    EXPECT_NEAR(client.noise_rate, truly, 0.06);
    EXPECT_EQ(client.interval.low, wilson(client.noise_rate, kEach).low);
    EXPECT_EQ(client.label_issues, issues);
    EXPECT_EQ(client.confident_rate, sums.clients[c].noise_rate);
    EXPECT_EQ(client.features, sums.clients[c].features) << "verdicts are made of sums";
    EXPECT_EQ(client.probabilities, sums.clients[c].probabilities);
    all += wrong / kClients;
  }
  EXPECT_NEAR(found.noise_rate, all, 1e-12);
  EXPECT_EQ(found.confident_rate, sums.noise_rate);
}

TEST(Findings, WhatIsNotJudgedIsNoIssueAndHasNoPartInARate) {
  Drawn drawn(4, 0.3);
  for (std::size_t i = 0; i < kEach; ++i) {
    drawn.judgement.judged[i] = false;
  }
  AuditFindings found = make_findings(drawn.input());
  judge_labels(drawn.input(), nullptr, found);
  EXPECT_EQ(found.not_judged, kEach);
  for (std::size_t i = 0; i < kEach; ++i) {
    EXPECT_FALSE(found.samples[i].is_label_issue);
    EXPECT_EQ(found.samples[i].label_score, 1.0);
  }
  EXPECT_EQ(found.clients[0].noise_rate, 0.0);
  EXPECT_TRUE(found.clients[0].too_few);
  EXPECT_EQ(found.clients[0].interval.high, 1.0);
  EXPECT_NEAR(found.noise_rate, 0.3, 0.05);
}

TEST(Findings, RepetitionsAreAveraged) {
  Drawn drawn(5, 0.3);
  AuditFindings once = make_findings(drawn.input());
  judge_labels(drawn.input(), nullptr, once);
  drawn.judgement.p_of = {drawn.judgement.p, drawn.judgement.p};
  drawn.judgement.model_of.push_back(drawn.judgement.model_of[0]);
  AuditFindings twice = make_findings(drawn.input());
  judge_labels(drawn.input(), nullptr, twice);
  for (std::size_t i = 0; i < drawn.held.size(); ++i) {
    ASSERT_NEAR(twice.samples[i].label_score, once.samples[i].label_score, 1e-12);
  }
}

TEST(Findings, ASignalStopsTheFit) {
  const Drawn drawn(6, 0.3);
  AuditFindings found = make_findings(drawn.input());
  const std::atomic<bool> stop{true};
  EXPECT_THROW(judge_labels(drawn.input(), &stop, found), Interrupted);
}

}  // namespace winnow::findings_test

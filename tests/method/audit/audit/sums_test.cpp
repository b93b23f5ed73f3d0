#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "testing/exchanges.h"
#include "winnow/base/random.h"
#include "winnow/method/audit/audit/letters.h"
#include "winnow/method/audit/audit/own_samples.h"

namespace winnow::audit::sums_test {

constexpr std::int64_t kClasses = 3;

// Samples with probabilities, distances and images drawn at random; labels mostly the likeliest.
struct Drawn {
  Drawn(std::uint64_t seed, std::size_t count) {
    Stream stream(seed, "audit sums");
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t best = 0;
      for (const double share : stream.dirichlet(0.3, kClasses)) {
        p.push_back(static_cast<float>(share));
        best = p.back() > p[i * kClasses + best] ? p.size() - 1 - i * kClasses : best;
      }
      given.push_back(stream.below(5) == 0 ? static_cast<std::int64_t>(stream.below(kClasses))
                                           : static_cast<std::int64_t>(best));
      distance.push_back(0.5 + stream.uniform());
      norms.push_back(3.0 * stream.uniform());
      images.emplace_back();
      for (int pixel = 0; pixel < 64; ++pixel) {
        images.back().push_back(static_cast<std::uint8_t>(stream.below(256)));
      }
      stats.push_back(image_stats({images.back(), 1, 8, 8}));
    }
    judged.assign(count, true);
  }

  OwnSamples part(std::size_t first, std::size_t count) const {
    return {.classes = kClasses,
            .given = std::span(given).subspan(first, count),
            .p = std::span(p).subspan(first * kClasses, count * kClasses),
            .distance = std::span(distance).subspan(first, count),
            .stats = std::span(stats).subspan(first, count),
            .image =
                [this, first](std::size_t i) {
                  return ImageBytes{images[first + i], 1, 8, 8};
                },
            .judged = std::vector<bool>(count, true)};
  }
  FirstSums first(std::size_t from, std::size_t count, std::int64_t least = 1) const {
    return first_sums(part(from, count), std::span(norms).subspan(from, count), least);
  }

  std::vector<float> p;
  std::vector<std::int64_t> given;
  std::vector<double> distance;
  std::vector<double> norms;
  std::vector<std::vector<std::uint8_t>> images;
  std::vector<ImageStats> stats;
  std::vector<bool> judged;
};

// spec: audit 8 #2
TEST(AuditSums, OfTwoClientsAreThoseOfTheirUnion) {
  const Drawn drawn(1, 120);
  Population both(kClasses);
  both += drawn.first(0, 50);
  both += drawn.first(50, 70);
  Population whole(kClasses);
  whole += drawn.first(0, 120);
  const Told told = tell(both);
  EXPECT_EQ(told.thresholds, tell(whole).thresholds);
  EXPECT_EQ(told.middle, tell(whole).middle);
  EXPECT_EQ(told.rare, tell(whole).rare);
  std::vector<SampleFinding> found;
  std::vector<SampleFinding> all_found;
  const SecondSums one = second_sums(drawn.part(0, 50), told, 1, found);
  const SecondSums other = second_sums(drawn.part(50, 70), told, 1, all_found);
  found.insert(found.end(), all_found.begin(), all_found.end());
  const SecondSums all = second_sums(drawn.part(0, 120), told, 1, all_found);
  const FirstSums one_first = drawn.first(0, 50);
  const FirstSums other_first = drawn.first(50, 70);
  const FirstSums all_first = drawn.first(0, 120);
  const Pooled pooled(kClasses, {{&one_first, &one}, {&other_first, &other}});
  EXPECT_EQ(pooled.counts.counts(), all.counts.counts());
  EXPECT_EQ(pooled.bars, Pooled(kClasses, {{&all_first, &all}}).bars);
  EXPECT_EQ(pooled.distance.counts(), all.distance.counts());
  EXPECT_NEAR(one.image_distance + other.image_distance, all.image_distance, 1e-9);
  flag_labels(drawn.given, pooled.bars, found);
  flag_labels(drawn.given, pooled.bars, all_found);
  EXPECT_EQ(found, all_found);
  EXPECT_TRUE(std::ranges::any_of(found, &SampleFinding::is_label_issue));
}

// spec: audit 2
TEST(AuditSums, ALabelIsAnIssueBelowTheBarOfItsClassWhereverItCounts) {
  std::vector<SampleFinding> found(4);
  found[0] = {.counted = 1, .label_score = 0.2};
  found[1] = {.counted = -1, .label_score = 0.2};  // not as sure as the class's mean
  found[2] = {.counted = 1, .label_score = 0.4};
  found[3] = {.judged = false, .counted = 1, .label_score = 0.2};
  flag_labels(std::vector<std::int64_t>{0, 0, 0, 0}, std::vector<double>{0.3, 0.5, 0.5}, found);
  EXPECT_TRUE(found[0].is_label_issue);
  EXPECT_TRUE(found[1].is_label_issue);
  EXPECT_FALSE(found[2].is_label_issue);
  EXPECT_FALSE(found[3].is_label_issue);
}

// spec: audit 2
TEST(AuditSums, TheThresholdsOfAFoldAreItsOwnWhereItHasSamples) {
  const ThresholdSums all({100, 40, 5, 0}, std::vector<double>{60.0, 10.0, 2.0, 0.0});
  const ThresholdSums fold({30, 0, 5, 0}, std::vector<double>{27.0, 0.0, 2.0, 0.0});
  const std::vector<double> thresholds = fold_thresholds(fold, all);
  EXPECT_NEAR(thresholds[0], (27.0 + 10.0 * 0.6) / 40.0, 1e-8);
  EXPECT_NEAR(thresholds[1], 0.25, 1e-8);
  EXPECT_NEAR(thresholds[2], 0.4, 1e-8);
  EXPECT_EQ(thresholds[3], std::numeric_limits<double>::infinity());
}

// The model of the first fold confuses the first two classes, that of the second none: what its own
// fold shows is no noise, and what only one client of the other fold shows is.
TEST(AuditSums, AClientIsComparedWithTheOthersOfItsFold) {
  const Drawn drawn(6, 100);
  const FirstSums first = drawn.first(0, 100);
  SecondSums confused(kClasses);
  confused.counts = JointCounts(kClasses, {30, 12, 0, 12, 30, 0, 0, 0, 16});
  SecondSums clear(kClasses);
  clear.counts = JointCounts(kClasses, {42, 0, 0, 0, 42, 0, 0, 0, 16});
  std::vector<Member> members;
  for (int i = 0; i < 3; ++i) {
    members.push_back({&first, &clear, 1});
  }
  members.push_back({&first, &confused, 1});
  const auto rate = [&](std::size_t member) {
    return Pooled(kClasses, members).kinds[member].expected_rate;
  };
  EXPECT_LT(rate(0), 0.02);
  EXPECT_GT(rate(3), 0.15);
  // Clean clients of its fold that show the same are what it takes.
  for (Member& member : members) {
    member = {&first, &confused, 0};
  }
  members.push_back({&first, &confused, 0});
  EXPECT_LT(rate(3), 0.05);
}

// The counts of a fold's cleanest clients are summed once; each client's own are taken out again.
TEST(AuditSums, AClientsOwnCountsAreNoEvidenceAboutItself) {
  const Drawn drawn(8, 60);
  const FirstSums first = drawn.first(0, 60);
  Stream stream(8, "counts");
  std::vector<SecondSums> seconds;
  std::vector<JointCounts> each;
  for (int client = 0; client < 14; ++client) {
    seconds.emplace_back(kClasses);
    for (std::int64_t n = 0; n < 60; ++n) {
      const auto given = static_cast<std::int64_t>(stream.below(kClasses));
      const bool beside = stream.bernoulli(0.03 * client);
      seconds.back().counts.add(given, beside ? (given + 1) % kClasses : given);
    }
    each.push_back(seconds.back().counts);
  }
  std::vector<Member> members;
  for (std::size_t m = 0; m < seconds.size(); ++m) {
    members.push_back({&first, &seconds[m], static_cast<std::int64_t>(m % 4) - 1});
  }
  const Pooled pooled(kClasses, members);
  const Confusion of_all = honest_confusion(each);
  std::vector<std::size_t> cleanest(members.size());
  std::iota(cleanest.begin(), cleanest.end(), std::size_t{0});
  std::ranges::stable_sort(cleanest, {},
                           [&](std::size_t m) { return find_kind(each[m], of_all).expected_rate; });
  cleanest.resize(5);  // of 14
  for (std::size_t m = 0; m < members.size(); ++m) {
    JointCounts others(kClasses);
    for (const std::size_t other : cleanest) {
      if (other != m && members[other].fold == members[m].fold) {
        others += each[other];
      }
    }
    const Confusion expected = members[m].fold < 0 ? of_all : model_confusion(of_all, others);
    EXPECT_EQ(pooled.confusions[m].rows, expected.rows) << m;
    EXPECT_EQ(pooled.kinds[m].expected_rate, find_kind(each[m], expected).expected_rate) << m;
  }
}

// Where most clients have odd images, those are the middle of all; the others are still narrower.
TEST(AuditSums, ImagesAreComparedWithTheThirdThatHasLeast) {
  const Drawn drawn(7, 80);
  std::vector<FirstSums> firsts;
  std::vector<SecondSums> seconds;
  for (int client = 0; client < 6; ++client) {
    firsts.push_back(drawn.first(0, 80));
    seconds.emplace_back(kClasses);
    seconds.back().image_distance = client < 4 ? 80.0 * 4.0 : 80.0;
    for (StatHistogram& stat : firsts.back().stats) {
      stat = {};
      for (int i = 0; i < 80; ++i) {
        stat.add(0.5 + (client < 4 ? 0.002 : 0.001) * (i - 40));
      }
    }
  }
  std::vector<Member> members;
  for (std::size_t client = 0; client < 6; ++client) {
    members.push_back({&firsts[client], &seconds[client], 0});
  }
  const Pooled pooled(kClasses, members);
  for (std::size_t client = 0; client < 6; ++client) {
    EXPECT_NEAR(pooled.image_distance[client], client < 4 ? std::log(4.0) - 0.5 : 0.0, 1e-9);
    EXPECT_NEAR(pooled.image_spread[client], client < 4 ? std::log(0.138 / 0.074) : 0.0, 0.05);
  }
}

TEST(AuditSums, AClassWithTooFewSamplesStaysOutOfThem) {
  Drawn drawn(2, 60);
  std::ranges::replace(drawn.given, std::int64_t{2}, std::int64_t{0});
  drawn.given[7] = 2;
  OwnSamples own = drawn.part(0, 60);
  own.judged[7] = false;
  const FirstSums sums = first_sums(own, drawn.norms, 5);
  EXPECT_EQ(sums.held[2], 0);
  EXPECT_EQ(sums.labels.samples()[2], 0);
  EXPECT_EQ(sums.labels.sums()[2], 0.0);
  EXPECT_EQ(sums.samples, 60);
  EXPECT_EQ(sums.stats[0].total(), 60) << "what is not by class counts all";
  std::vector<SampleFinding> found;
  Population all(kClasses);
  all += sums;
  const SecondSums second = second_sums(own, tell(all), 5, found);
  EXPECT_FALSE(found[7].judged);
  EXPECT_EQ(second.counts.row(2), 0);
  for (const std::int64_t samples : second.confident.samples()) {
    EXPECT_TRUE(samples == 0 || samples >= 5);
  }
}

TEST(AuditLetters, SumsComeBackAsTheyWere) {
  const Drawn drawn(3, 80);
  const FirstSums first = drawn.first(0, 80);
  const Message letter = write_first(first);
  EXPECT_NO_THROW(check(letter, exchanges(kClasses)));
  const auto read = read_first(letter, {kClasses, 1}, 80);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->held, first.held);
  EXPECT_EQ(read->labels.thresholds(), first.labels.thresholds());
  EXPECT_EQ(read->stats[3].counts(), first.stats[3].counts());
  EXPECT_EQ(read->scores[2].counts(), first.scores[2].counts());
  EXPECT_EQ(read->gradient.counts(), first.gradient.counts());
  EXPECT_EQ(read->distance.counts(), first.distance.counts());
  Population all(kClasses);
  all += first;
  Told told = tell(all);
  told.distance = middle_distance(first.distance);
  std::vector<SampleFinding> found;
  const SecondSums second = second_sums(drawn.part(0, 80), told, 1, found);
  const Message answer = write_second(second);
  EXPECT_NO_THROW(check(answer, exchanges(kClasses)));
  const auto back = read_second(answer, {kClasses, 1}, first);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->counts.counts(), second.counts.counts());
  EXPECT_EQ(back->confident.sums(), second.confident.sums());
  EXPECT_EQ(back->mixture, second.mixture);
  const ToldClient heard = read_told(write_told(told, {true, false, true}));
  EXPECT_EQ(heard.told.thresholds, told.thresholds);
  EXPECT_EQ(heard.told.spread, told.spread);
  EXPECT_EQ(heard.known, (std::vector<bool>{true, false, true}));
}

// The size of what leaves says nothing about the samples.
TEST(AuditLetters, AreOfOneSizeForAnyNumberOfSamples) {
  const Drawn drawn(4, 90);
  EXPECT_EQ(write_first(drawn.first(0, 10)).bytes(), write_first(drawn.first(0, 90)).bytes());
  EXPECT_EQ(write_first(drawn.first(0, 10)).bytes(), (2 * kClasses + 14 * 512) * 8);
  EXPECT_EQ(write_second(SecondSums(kClasses)).bytes(),
            (kClasses * kClasses + 2 * kClasses + 512 + 2) * 8 + 4);
}

TEST(AuditLetters, WhatNoHonestClientCanSayIsRefused) {
  const Drawn drawn(5, 40);
  const FirstSums first = drawn.first(0, 40);
  const auto changed = [&](const char* field, std::size_t at, double to) {
    const Message honest = write_first(first);
    Message letter("sums_done");
    for (auto [name, value] : honest.fields()) {
      if (name == field) {
        std::get<std::vector<double>>(value)[at] = to;
      }
      letter.set(name, value);
    }
    return read_first(letter, {kClasses, 3}, 40).has_value();
  };
  EXPECT_TRUE(changed("held", 0, static_cast<double>(first.held[0])));
  EXPECT_FALSE(changed("held", 0, 41)) << "more than it has";
  EXPECT_FALSE(changed("held", 0, 2)) << "fewer than may be in a sum";
  EXPECT_FALSE(changed("held", 0, 4.5)) << "no whole number";
  EXPECT_FALSE(changed("sums", 1, 40.5)) << "probabilities above one";
  EXPECT_FALSE(changed("images", 5, 40)) << "an image more";
  EXPECT_FALSE(changed("gradients", 5, 40));
  EXPECT_FALSE(read_first(write_first(first), {kClasses, 1}, 39)) << "of other samples";
  SecondSums second(kClasses);
  second.distance = first.distance;
  EXPECT_TRUE(read_second(write_second(second), {kClasses, 1}, first));
  second.counts = JointCounts(kClasses, {first.held[0], 1, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_FALSE(read_second(write_second(second), {kClasses, 1}, first)) << "a row too long";
  second.counts = JointCounts(kClasses);
  second.confident = ThresholdSums({1, 0, 0}, std::vector<double>{0.5, 0, 0});
  EXPECT_FALSE(read_second(write_second(second), {kClasses, 1}, first)) << "confident of nothing";
}

}  // namespace winnow::audit::sums_test

#include "winnow/stats/wrong_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <span>
#include <vector>

#include "winnow/base/random.h"

namespace winnow::wrong_share_test {

constexpr std::int64_t kClasses = 4;

struct Labels {
  std::vector<float> p;
  std::vector<std::int64_t> given;
  std::vector<std::int64_t> model;
  std::vector<bool> is_wrong;
  double wrong = 0.0;

  WrongShare fit() const { return fit_wrong_share({kClasses, p, given, model}); }
};

// Images that look more or less like their class to two models. What a model says is the truth
// about it to a power, times its taste: that of the first likes class 0, and the second is too
// sure.
Labels draw(std::uint64_t seed, std::int64_t count, double rate, bool pair) {
  Stream stream(seed, "wrong share");
  Labels labels;
  constexpr double kPower = 0.5;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<double> truth = stream.dirichlet(0.15, kClasses);
    const auto label = static_cast<std::int64_t>(stream.categorical(truth));
    const std::size_t model = i % 2 == 0 ? 0 : 1;
    double sum = 0.0;
    std::array<double, kClasses> said{};
    for (std::size_t c = 0; c < kClasses; ++c) {
      said[c] = std::pow(truth[c] + 1e-6, kPower) * (c == model ? 3.0 : 1.0);
      sum += said[c];
    }
    for (const double share : said) {
      labels.p.push_back(static_cast<float>(share / sum));
    }
    const bool wrong = stream.bernoulli(rate);
    const auto step = pair ? 1 : 1 + static_cast<std::int64_t>(stream.below(kClasses - 1));
    labels.given.push_back(wrong ? (label + step) % kClasses : label);
    labels.model.push_back(static_cast<std::int64_t>(model));
    labels.is_wrong.push_back(wrong);
    labels.wrong += wrong ? 1.0 / static_cast<double>(count) : 0.0;
  }
  return labels;
}

TEST(WrongShare, IsFoundThoughTheModelsErr) {
  for (const bool pair : {false, true}) {
    for (const double rate : {0.0, 0.05, 0.15, 0.4}) {
      const Labels labels = draw(1, 6000, rate, pair);
      EXPECT_NEAR(labels.fit().rate, labels.wrong, 0.02) << rate << (pair ? " pair" : " symmetric");
    }
  }
}

TEST(WrongShare, ModelsThatAreNotSureEnoughAreSharpened) {
  EXPECT_NEAR(draw(2, 8000, 0.2, false).fit().sharpness, 2.0, 0.4);
}

// Models that are equally sure of all their samples do not hide that some labels are wrong.
TEST(WrongShare, IsFoundWhereTheModelsAreRightAndAlikeSure) {
  Labels labels;
  for (std::int64_t i = 0; i < 400; ++i) {
    const std::int64_t label = i % kClasses;
    for (std::int64_t c = 0; c < kClasses; ++c) {
      labels.p.push_back(c == label ? 0.91F - 0.0001F * static_cast<float>(i % 100) : 0.03F);
    }
    labels.model.push_back(i / 200);
    labels.given.push_back(i >= 300 && i % 3 == 0 ? (label + 1) % kClasses : label);
  }
  EXPECT_NEAR(labels.fit().rate, 34.0 / 400, 0.02);
}

TEST(WrongShare, TheFlipsAreThoseOfTheLabels) {
  const WrongShare found = draw(3, 8000, 0.3, true).fit();
  for (std::int64_t j = 0; j < kClasses; ++j) {
    for (std::int64_t i = 0; i < kClasses; ++i) {
      const double expected = i == j ? 0.7 : (i == (j + 1) % kClasses ? 0.3 : 0.0);
      EXPECT_NEAR(found.flips[static_cast<std::size_t>(j * kClasses + i)], expected, 0.05);
    }
  }
}

TEST(WrongShare, IsTheMeanOfWhatEverySampleSays) {
  const Labels labels = draw(4, 3000, 0.3, false);
  const WrongShare found = labels.fit();
  double wrong = 0.0;
  double called = 0.0;
  double right = 0.0;
  for (std::size_t i = 0; i < labels.given.size(); ++i) {
    const std::vector<double> truth = found.true_class(
        std::span(labels.p).subspan(i * kClasses, kClasses), labels.given[i], labels.model[i]);
    double sum = 0.0;
    for (const double share : truth) {
      sum += share;
    }
    ASSERT_NEAR(sum, 1.0, 1e-9);
    const double own = 1.0 - truth[static_cast<std::size_t>(labels.given[i])];
    wrong += own / static_cast<double>(labels.given.size());
    called += own > 0.5 ? 1.0 : 0.0;
    right += own > 0.5 && labels.is_wrong[i] ? 1.0 : 0.0;
  }
  EXPECT_NEAR(wrong, found.rate, 1e-9);
  EXPECT_GT(right / called, 0.8) << "and what it says is right";
}

TEST(WrongShare, SamplesThatWereNotJudgedHaveNoPartInIt) {
  const Labels some = draw(5, 2000, 0.2, false);
  Labels more = some;
  std::vector<bool> judged(some.given.size(), true);
  for (std::int64_t i = 0; i < 500; ++i) {
    more.p.insert(more.p.end(), {0.97F, 0.01F, 0.01F, 0.01F});
    more.given.push_back(3);
    more.model.push_back(0);
    judged.push_back(false);
  }
  const WrongShare found = fit_wrong_share({kClasses, more.p, more.given, more.model, &judged});
  EXPECT_EQ(found.rate, some.fit().rate);
  EXPECT_EQ(found.flips, some.fit().flips);
}

TEST(WrongShare, EndsOnceItIsToStop) {
  const Labels labels = draw(6, 1000, 0.3, false);
  const std::atomic<bool> stop{true};
  EXPECT_GT(labels.fit().steps, 2);
  EXPECT_EQ(fit_wrong_share({kClasses, labels.p, labels.given, labels.model}, &stop).steps, 1);
}

TEST(WrongShare, OfNothingIsNothing) {
  EXPECT_EQ(fit_wrong_share({.classes = 3, .p = {}, .given = {}, .model = {}}).rate, 0.0);
  const std::vector<float> p{0.7F, 0.3F};
  const std::vector<std::int64_t> one{0};
  const double rate = fit_wrong_share({2, p, one, one}).rate;
  EXPECT_TRUE(rate >= 0.0 && rate <= 1.0);
}

}  // namespace winnow::wrong_share_test

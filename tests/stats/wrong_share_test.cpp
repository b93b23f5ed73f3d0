#include "winnow/stats/wrong_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "winnow/base/random.h"

namespace winnow::wrong_share_test {

constexpr std::int64_t kClasses = 4;

struct Labels {
  std::vector<float> p;
  std::vector<std::int64_t> given;
  std::vector<std::int64_t> model;
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

TEST(WrongShare, OfNothingIsNothing) {
  EXPECT_EQ(fit_wrong_share({.classes = 3, .p = {}, .given = {}, .model = {}}).rate, 0.0);
  const std::vector<float> p{0.7F, 0.3F};
  const std::vector<std::int64_t> one{0};
  const double rate = fit_wrong_share({2, p, one, one}).rate;
  EXPECT_TRUE(rate >= 0.0 && rate <= 1.0);
}

}  // namespace winnow::wrong_share_test

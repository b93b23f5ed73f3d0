#include "winnow/method/system/fedrn/arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "winnow/method/clean_set.h"
#include "winnow/stats/min_max.h"

namespace winnow::fedrn::fedrn_reliability_test {

using Ids = std::vector<std::int64_t>;

constexpr double kTolerance = 1e-6;

// spec: label-noise B.8 #1
Profiles worked_example() {
  return {{0, {0.6, {2, 0, -1}}},
          {1, {0.8, {1.5, 0.5, -1}}},
          {2, {0.9, {-1, 2, 0}}},
          {3, {0.4, {0, -1, 2}}},
          {4, {0.7, {2, 0.2F, -0.8F}}}};
}

void expect_near(const std::vector<double>& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], kTolerance) << "value " << i;
  }
}

std::vector<double> weights_with(const Reliability& known, const Ids& neighbours) {
  std::vector<double> reliabilities{known.self};
  for (const std::int64_t neighbour : neighbours) {
    reliabilities.push_back(known.others.at(neighbour));
  }
  return vote_weights(reliabilities);
}

TEST(FedRNReliability, OfTheWorkedExample) {
  const Reliability known = reliability(worked_example(), 0, 0.6, Similarity::logits);
  EXPECT_NEAR(known.self, 0.64, kTolerance);
  ASSERT_EQ(known.others.size(), 4U);
  EXPECT_NEAR(known.others.at(1), 0.86748082, kTolerance);
  EXPECT_NEAR(known.others.at(2), 0.6, kTolerance);
  EXPECT_NEAR(known.others.at(3), 0.0, kTolerance);
  EXPECT_NEAR(known.others.at(4), 0.75779368, kTolerance);
  const Ids neighbours = most_reliable(known, 2);
  EXPECT_EQ(neighbours, (Ids{1, 4}));
  expect_near(weights_with(known, neighbours), {0.28252647, 0.38294733, 0.33452620});
}

TEST(FedRNReliability, OfTheWorkedExampleWithSoftmax) {
  const Reliability known = reliability(worked_example(), 0, 0.6, Similarity::softmax);
  EXPECT_NEAR(known.self, 0.64, kTolerance);
  EXPECT_NEAR(known.others.at(1), 0.86820316, kTolerance);
  EXPECT_NEAR(known.others.at(4), 0.75976141, kTolerance);
  expect_near(weights_with(known, {1, 4}), {0.28219136, 0.38281161, 0.33499704});
}

TEST(FedRNReliability, CosinesOfTheWorkedExample) {
  const std::vector<double> own{2, 0, -1};
  std::vector<double> cosines;
  for (const auto& [client, profile] : worked_example()) {
    cosines.push_back(
        cosine(own, std::vector<double>(profile.output.begin(), profile.output.end())));
  }
  expect_near(cosines, {1, 0.95618289, -0.4, -0.4, 0.99227788});
  expect_near(min_max(cosines), {1, 0.96870206, 0, 0, 0.99448420});
  expect_near(min_max({0.6, 0.8, 0.9, 0.4, 0.7}), {0.4, 0.8, 1, 0, 0.6});

  const auto softmax = [](const std::vector<float>& output) {
    std::vector<double> values;
    double sum = 0.0;
    for (const float value : output) {
      values.push_back(std::exp(value));
      sum += values.back();
    }
    for (double& value : values) {
      value /= sum;
    }
    return values;
  };
  cosines.clear();
  for (const auto& [client, profile] : worked_example()) {
    cosines.push_back(cosine(softmax({2, 0, -1}), softmax(profile.output)));
  }
  expect_near(cosines, {1, 0.97605100, 0.18795195, 0.18795195, 0.99951563});
}

TEST(FedRNReliability, CosineOfNothingIsZero) {
  const std::vector<double> zero{0, 0};
  const std::vector<double> some{3, 4};
  EXPECT_EQ(cosine(zero, some), 0.0);
  EXPECT_EQ(cosine(zero, zero), 0.0);
  EXPECT_DOUBLE_EQ(cosine(some, some), 1.0);
}

TEST(FedRNReliability, SoftmaxDoesNotOverflow) {
  const Profiles profiles{{0, {0.5, {1000, 0}}}, {1, {0.6, {999, 0}}}, {2, {0.7, {0, 1000}}}};
  const Reliability known = reliability(profiles, 0, 0.0, Similarity::softmax);
  EXPECT_NEAR(known.others.at(1), 1.0, kTolerance);
  EXPECT_NEAR(known.others.at(2), 0.0, kTolerance);
}

// spec: label-noise B.8 #5
TEST(FedRNReliability, OfEqualScoresTheLowerIdComesFirst) {
  const Reliability known{1.0, {{1, 0.2}, {3, 0.7}, {5, 0.9}, {7, 0.7}, {8, 0.7}}};
  EXPECT_EQ(most_reliable(known, 1), Ids{5});
  EXPECT_EQ(most_reliable(known, 2), (Ids{5, 3}));
  EXPECT_EQ(most_reliable(known, 3), (Ids{5, 3, 7}));
  EXPECT_EQ(most_reliable(known, 9), (Ids{5, 3, 7, 8, 1}));
  EXPECT_TRUE(most_reliable(known, 0).empty());
  EXPECT_TRUE(most_reliable({}, 2).empty());
}

TEST(FedRNReliability, AlphaOneIgnoresOutputs) {
  Profiles profiles = worked_example();
  const Reliability known = reliability(profiles, 0, 1.0, Similarity::logits);
  EXPECT_NEAR(known.self, 0.4, kTolerance);
  for (const std::int64_t client : {0, 1, 2, 3, 4}) {
    Profile& profile = profiles[client];
    profile.output = {static_cast<float>(client), 1, 5};
  }
  const Reliability changed = reliability(profiles, 0, 1.0, Similarity::logits);
  EXPECT_EQ(changed.self, known.self);
  EXPECT_EQ(changed.others, known.others);
}

TEST(FedRNReliability, AlphaZeroIgnoresExpertise) {
  Profiles profiles = worked_example();
  const Reliability known = reliability(profiles, 0, 0.0, Similarity::logits);
  EXPECT_EQ(known.self, 1.0);
  for (const std::int64_t client : {0, 1, 2, 3, 4}) {
    Profile& profile = profiles[client];
    profile.expertise = static_cast<double>(client) / 10.0;
  }
  const Reliability changed = reliability(profiles, 0, 0.0, Similarity::logits);
  EXPECT_EQ(changed.self, 1.0);
  EXPECT_EQ(changed.others, known.others);
}

// spec: label-noise B.4 #13
TEST(FedRNReliability, EqualValuesCountAsOne) {
  EXPECT_EQ(min_max({0.3, 0.3, 0.3}), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(min_max({0.3, 0.3 + 1e-14}), (std::vector<double>{1, 1}));
  EXPECT_EQ(min_max({5.0}), std::vector<double>{1});
  EXPECT_TRUE(min_max({}).empty());
  const Profiles equal{{0, {0.5, {1, 2}}}, {1, {0.5, {1, 2}}}, {2, {0.5, {1, 2}}}};
  const Reliability known = reliability(equal, 1, 0.6, Similarity::logits);
  EXPECT_DOUBLE_EQ(known.self, 1.0);
  EXPECT_DOUBLE_EQ(known.others.at(0), 1.0);
  EXPECT_DOUBLE_EQ(known.others.at(2), 1.0);
}

// spec: label-noise B.4 #5
TEST(FedRNReliability, ATargetThatIsNotKnownIsSimilarToEverybody) {
  Profiles profiles = worked_example();
  profiles.erase(0);
  const Reliability known = reliability(profiles, 0, 0.6, Similarity::logits);
  EXPECT_EQ(known.self, 1.0);
  ASSERT_EQ(known.others.size(), 4U);
  EXPECT_NEAR(known.others.at(1), 0.6 * 0.8 + 0.4, kTolerance);
  EXPECT_NEAR(known.others.at(2), 1.0, kTolerance);
  EXPECT_NEAR(known.others.at(3), 0.4, kTolerance);
  EXPECT_NEAR(known.others.at(4), 0.6 * 0.6 + 0.4, kTolerance);
  const Reliability nobody = reliability({}, 0, 0.6, Similarity::logits);
  EXPECT_EQ(nobody.self, 1.0);
  EXPECT_TRUE(nobody.others.empty());
}

TEST(FedRNReliability, RandomNeighboursAreDistinctAndNeverTheTarget) {
  Profiles profiles;
  for (std::int64_t client = 0; client < 10; client += 2) {
    profiles[client] = {};
  }
  std::set<std::int64_t> seen;
  for (std::uint64_t key = 0; key < 50; ++key) {
    const Ids chosen = random_neighbours(profiles, 4, 2, Stream(key));
    ASSERT_EQ(chosen.size(), 2U);
    EXPECT_LT(chosen[0], chosen[1]);
    EXPECT_EQ(chosen, random_neighbours(profiles, 4, 2, Stream(key)));
    seen.insert(chosen.begin(), chosen.end());
  }
  EXPECT_EQ(seen, (std::set<std::int64_t>{0, 2, 6, 8}));
  EXPECT_EQ(random_neighbours(profiles, 4, 9, Stream(1)), (Ids{0, 2, 6, 8}));
  EXPECT_TRUE(random_neighbours(profiles, 4, 0, Stream(1)).empty());
  EXPECT_TRUE(random_neighbours({{4, {}}}, 4, 2, Stream(1)).empty());
}

// The figure 5 of the paper.
TEST(FedRNReliability, LikenessIsTheCosineOfAllPairs) {
  const Likeness alike = likeness(worked_example(), Similarity::logits, 120);
  EXPECT_EQ(alike.of, "logits");
  EXPECT_EQ(alike.known, 5);
  EXPECT_EQ(alike.clients, (Ids{0, 1, 2, 3, 4}));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(alike.values[i][i], 1.0, 1e-12);
    EXPECT_EQ(alike.values[i][0], alike.values[0][i]);
    EXPECT_LE(alike.values[i][0], 1.0);
  }
  // (2, 0, -1) and (1.5, 0.5, -1): 4 / sqrt(5 * 3.5)
  EXPECT_NEAR(alike.values[0][1], 4.0 / std::sqrt(17.5), 1e-12);
  EXPECT_EQ(likeness(worked_example(), Similarity::softmax, 120).of, "softmax");
}

TEST(FedRNReliability, OfManyClientsLikenessComparesSomeEvenlyChosen) {
  Profiles profiles;
  for (std::int64_t client = 0; client < 100; ++client) {
    profiles[client] = {0.5, {1, static_cast<float>(client)}};
  }
  const Likeness alike = likeness(profiles, Similarity::logits, 4);
  EXPECT_EQ(alike.clients, (Ids{0, 33, 66, 99}));
  EXPECT_EQ(alike.known, 100);
  EXPECT_EQ(alike.values.size(), 4U);
}

}  // namespace winnow::fedrn::fedrn_reliability_test

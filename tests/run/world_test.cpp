#include "winnow/run/world.h"

#include <gtest/gtest.h>

#include "winnow/run/session.h"

namespace winnow::world_test {

Experiment small(const Json& method, const char* noise) {
  Json tree = Json::parse(R"({"seed": 5, "rounds": 2,
    "data": {"name": "synthetic", "samples": 600, "test_samples": 100, "classes": 4, "size": 16},
    "federation": {"clients": 6, "fraction": 0.5}, "train": {"epochs": 1}})");
  tree["method"] = method;
  tree["noise"] = Json::parse(noise);
  return parse_experiment(tree, builtin_methods());
}

constexpr const char* kLabels = R"([{"name": "fedcorr_labels", "rho": 1.0, "tau": 1.0}])";
constexpr const char* kBoth = R"([{"name": "fedrn_labels", "low": 0.5, "high": 0.5},
                                  {"name": "distortions", "level": 0.5, "share": 0.5}])";

std::int64_t right_samples(const World& world) {
  std::int64_t right = 0;
  for (const ClientData& client : world.clients) {
    for (std::size_t i = 0; i < client.samples.size(); ++i) {
      right +=
          client.given[i] == world.data.train.labels[static_cast<std::size_t>(client.samples[i])];
    }
  }
  return right;
}

std::int64_t all_samples(const World& world) {
  std::int64_t sum = 0;
  for (const ClientData& client : world.clients) {
    sum += static_cast<std::int64_t>(client.samples.size());
  }
  return sum;
}

TEST(World, TheOracleHoldsExactlyTheRightSamples) {
  const World noisy = make_world(small("fedavg", kLabels));
  const World oracle = make_world(small("oracle", kLabels));
  EXPECT_LT(right_samples(noisy), all_samples(noisy));
  EXPECT_EQ(all_samples(oracle), right_samples(noisy));
  EXPECT_EQ(right_samples(oracle), all_samples(oracle));
  // Redrawn over all 4 classes, about a quarter stays right (spec: baselines 27).
  EXPECT_NEAR(static_cast<double>(all_samples(oracle)) / 600.0, 0.25, 0.07);
}

TEST(World, TheOracleLeavesOutDistortedImages) {
  const World noisy = make_world(small("fedavg", kBoth));
  const World oracle = make_world(small("oracle", kBoth));
  std::set<std::int64_t> distorted;
  for (const LedgerSample& entry : noisy.ledger.samples()) {
    if (entry.kind != "label") {
      distorted.insert(entry.sample);
    }
  }
  EXPECT_EQ(distorted.size(), 150U);
  for (const ClientData& client : oracle.clients) {
    for (const std::int64_t sample : client.samples) {
      EXPECT_FALSE(distorted.contains(sample));
    }
  }
}

TEST(World, WithoutNoiseTheOracleIsTheBaseMethodBitForBit) {
  const Registry registry = builtin_methods();
  for (const Json& table : {Json{{"name", "fedavg"}}, Json{{"name", "scaffold"}},
                            Json{{"name", "trimmed_mean"}, {"trim", 0.34}}}) {
    Session base(small(table, "[]"), registry, {.lanes = 1, .device = "cpu"}, nullptr);
    Session oracle(small({{"name", "oracle"}, {"base", table}}, "[]"), registry,
                   {.lanes = 1, .device = "cpu"}, nullptr);
    EXPECT_EQ(base.play().record.hash, oracle.play().record.hash) << table;
    EXPECT_EQ(base.play().record.hash, oracle.play().record.hash) << table;
  }
}

TEST(World, ClientsWithoutSamplesAreSkipped) {
  // Every label of clients 0 to 4 is wrong: the oracle has one client left to train.
  const char* noise = R"([{"name": "clipfl_labels", "rho": 1.0, "mu": 1.0,
                           "clients": [0, 1, 2, 3, 4]}])";
  Session session(small("oracle", noise), builtin_methods(), {.lanes = 2, .device = "cpu"},
                  nullptr);
  EXPECT_EQ(all_samples(session.world()), 100);
  const Session::Played played = session.play();
  EXPECT_EQ(played.notes.at("clients"), Json::array({5}));
  EXPECT_EQ(played.record.traffic.participations, 1);
}

TEST(World, NoiseTouchesTrainingDataOnly) {
  const World clean = make_world(small("fedavg", "[]"));
  const World noisy = make_world(small("fedavg", kBoth));
  EXPECT_TRUE(clean.data.test.images.equal(noisy.data.test.images));
  EXPECT_EQ(clean.data.test.labels, noisy.data.test.labels);
  EXPECT_EQ(clean.data.train.labels, noisy.data.train.labels);
  EXPECT_FALSE(clean.data.train.images.equal(noisy.data.train.images));
}

}  // namespace winnow::world_test

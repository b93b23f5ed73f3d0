#include "winnow/noise/label/label_noise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>
#include <set>

#include "testing/errors.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"

namespace winnow::label_noise_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A federation with equally many samples of each class at every client, and what noise made of it.
struct World {
  World(std::int64_t samples, std::int64_t clients, std::int64_t class_count,
        std::uint64_t run_seed)
      : truth(static_cast<std::size_t>(samples)),
        assign(static_cast<std::size_t>(clients)),
        classes(class_count),
        seed(run_seed),
        ledger(run_seed, samples, clients) {
    for (std::int64_t i = 0; i < samples; ++i) {
      truth[static_cast<std::size_t>(i)] = i % classes;
      assign[static_cast<std::size_t>(i * clients / samples)].push_back(i);
    }
    given = labels_of_clients(assign, truth);
  }

  World& add(const char* block) {
    LabelNoise::parse(Json::parse(block), builtin_label_noises())
        .apply({assign, truth, classes, seed, blocks}, given, ledger);
    ++blocks;
    return *this;
  }

  std::int64_t wrong(std::size_t client) const {
    return std::ranges::count(wrong_labels(given[client], assign[client], truth), true);
  }

  double wrong_share() const {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < assign.size(); ++k) {
      sum += wrong(k);
    }
    return static_cast<double>(sum) / static_cast<double>(truth.size());
  }

  std::vector<std::int64_t> truth;
  Assignment assign;
  std::int64_t classes;
  std::uint64_t seed;
  std::uint64_t blocks = 0;
  GivenLabels given;
  Ledger ledger;
};

World cifar(std::uint64_t seed = 1) {
  return World(50000, 100, 10, seed);
}

const std::vector<const char*> kBlocks{
    R"({"name": "fedcorr_labels"})",
    R"({"name": "fedcorr_labels", "exact_count": true})",
    R"({"name": "clipfl_labels"})",
    R"({"name": "fedrn_labels", "type": "mixed"})",
    R"({"name": "fedncl_bernoulli"})",
    R"({"name": "fedncl_gaussian"})",
    R"({"name": "transition_matrix", "rho": 0.5, "matrix": [[0.8, 0.1, 0.1], [0, 1, 0], [0.5, 0, 0.5]]})"};

TEST(LabelNoise, TheLedgerTellsExactlyWhatChanged) {
  for (const char* block : kBlocks) {
    SCOPED_TRACE(block);
    World world(900, 10, 3, 4);
    const GivenLabels before = world.given;
    world.add(block);
    GivenLabels replayed = before;
    for (const LedgerSample& entry : world.ledger.samples()) {
      EXPECT_EQ(entry.kind, "label");
      EXPECT_NE(entry.from, entry.to);
      const auto k = static_cast<std::size_t>(entry.client);
      const auto at = std::ranges::find(world.assign[k], entry.sample) - world.assign[k].begin();
      EXPECT_EQ(replayed[k][static_cast<std::size_t>(at)], entry.from);
      replayed[k][static_cast<std::size_t>(at)] = entry.to;
    }
    EXPECT_EQ(replayed, world.given);
    ASSERT_EQ(world.ledger.clients().size(), 10U);
    for (const LedgerClient& entry : world.ledger.clients()) {
      EXPECT_EQ(entry.wrong, world.wrong(static_cast<std::size_t>(entry.client)));
      EXPECT_GE(entry.picked, entry.wrong);
      EXPECT_EQ(entry.samples, 90);
      EXPECT_EQ(world.ledger.is_noisy(entry.client), entry.noisy);
      if (entry.level == 0.0) {
        EXPECT_EQ(entry.wrong, 0);
      }
    }
  }
}

TEST(LabelNoise, TheSameSeedGivesTheSameLabels) {
  for (const char* block : kBlocks) {
    SCOPED_TRACE(block);
    const World first = World(900, 10, 3, 4).add(block);
    const World again = World(900, 10, 3, 4).add(block);
    const World other = World(900, 10, 3, 5).add(block);
    EXPECT_EQ(first.given, again.given);
    EXPECT_EQ(first.ledger.hash(), again.ledger.hash());
    EXPECT_NE(first.given, other.given);
  }
}

TEST(LabelNoise, AClientDoesNotDependOnTheSamplesOfOthers) {
  for (const char* block : kBlocks) {
    SCOPED_TRACE(block);
    World whole(900, 10, 3, 4);
    World thin(900, 10, 3, 4);
    thin.assign[2].resize(5);
    thin.given[2].resize(5);
    whole.add(block);
    thin.add(block);
    for (const std::size_t k : {0U, 1U, 3U, 9U}) {
      EXPECT_EQ(whole.given[k], thin.given[k]);
    }
  }
}

TEST(LabelNoise, RestrictingABlockLeavesItsClientsAsTheyWere) {
  for (const char* name : {"fedcorr_labels", "fedncl_bernoulli", "fedncl_gaussian"}) {
    SCOPED_TRACE(name);
    World all(900, 10, 3, 4);
    World some(900, 10, 3, 4);
    World turned(900, 10, 3, 4);
    all.add(Json{{"name", name}}.dump().c_str());
    some.add(Json{{"name", name}, {"clients", {2, 7, 5}}}.dump().c_str());
    turned.add(Json{{"name", name}, {"clients", {7, 5, 2}}}.dump().c_str());
    EXPECT_EQ(some.ledger.hash(), turned.ledger.hash());
    EXPECT_EQ(some.ledger.clients().size(), 3U);
    const GivenLabels clean = labels_of_clients(some.assign, some.truth);
    for (std::size_t k = 0; k < 10; ++k) {
      const bool inside = k == 2 || k == 5 || k == 7;
      EXPECT_EQ(some.given[k], inside ? all.given[k] : clean[k]) << k;
    }
  }
}

TEST(LabelNoise, AShareIsExact) {
  World world = cifar().add(R"({"name": "fedrn_labels", "low": 0.5, "high": 0.5, "share": 0.29})");
  EXPECT_EQ(world.ledger.clients().size(), 29U);
  EXPECT_EQ(world.ledger.noisy_clients().size(), 29U);
  const auto first = world.ledger.noisy_clients();
  EXPECT_NE(cifar(2)
                .add(R"({"name": "fedrn_labels", "low": 0.5, "high": 0.5, "share": 0.29})")
                .ledger.noisy_clients(),
            first);
  world.add(R"({"name": "clipfl_labels", "rho": 0.5, "mu": 1, "share": 0.5})");
  EXPECT_EQ(world.ledger.clients().size(), 29U + 50U);
}

TEST(LabelNoise, BlocksComposeInOrder) {
  World world(100, 2, 10, 1);
  const char* flip_all = R"({"name": "fedrn_labels", "type": "pairflip", "low": 1, "high": 1})";
  world.add(flip_all);
  EXPECT_EQ(world.given[0][0], 9);
  for (int i = 1; i < 10; ++i) {
    world.add(flip_all);
  }
  EXPECT_EQ(world.given, labels_of_clients(world.assign, world.truth));
  EXPECT_EQ(world.ledger.samples().size(), 1000U);
  EXPECT_EQ(world.ledger.samples()[0].to, world.ledger.samples()[100].from);
  EXPECT_EQ(world.ledger.samples()[999].block, 9);
  EXPECT_EQ(world.ledger.clients().back().wrong, 0);
}

TEST(FedcorrLabels, WrongShareOfEachSettingOfThePaper) {
  constexpr std::uint64_t kSeeds = 20;
  for (const auto& [rho, tau, expected] : {std::tuple{0.4, 0.0, 0.18},
                                           {0.4, 0.5, 0.27},
                                           {0.6, 0.0, 0.27},
                                           {0.6, 0.5, 0.405},
                                           {0.8, 0.0, 0.36},
                                           {0.8, 0.5, 0.54}}) {
    double share = 0.0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      share += cifar(seed)
                   .add(Json{{"name", "fedcorr_labels"}, {"rho", rho}, {"tau", tau}}.dump().c_str())
                   .wrong_share() /
               kSeeds;
    }
    // Nearly all of the spread is that of the levels of 100 clients.
    const double second = rho * (tau * tau + tau + 1.0) / 3.0;
    const double mean = rho * (1.0 + tau) / 2.0;
    const double deviation = 0.9 * std::sqrt((second - mean * mean) / (100.0 * kSeeds));
    EXPECT_NEAR(share, expected, 4 * deviation + 0.001) << rho << " " << tau;
  }
}

TEST(FedcorrLabels, CornerCases) {
  World clean = cifar().add(R"({"name": "fedcorr_labels", "rho": 0})");
  EXPECT_EQ(clean.given, labels_of_clients(clean.assign, clean.truth));
  EXPECT_THAT(clean.ledger.samples(), IsEmpty());
  EXPECT_THAT(clean.ledger.noisy_clients(), IsEmpty());
  EXPECT_NEAR(cifar().add(R"({"name": "fedcorr_labels", "rho": 1, "tau": 1})").wrong_share(), 0.9,
              0.0054);
}

TEST(FedcorrLabels, LevelsLieBetweenTauAndOneAndCountsFollowThem) {
  World world = cifar().add(R"({"name": "fedcorr_labels", "rho": 0.6, "tau": 0.5})");
  for (const LedgerClient& entry : world.ledger.clients()) {
    if (entry.level > 0.0) {
      EXPECT_GE(entry.level, 0.5);
      EXPECT_LT(entry.level, 1.0);
      EXPECT_TRUE(entry.noisy);
    }
    const double deviation = std::sqrt(500 * entry.level * (1 - entry.level));
    EXPECT_NEAR(static_cast<double>(entry.picked), 500 * entry.level, 4 * deviation);
    const double chance = 0.9 * entry.level;
    EXPECT_NEAR(static_cast<double>(entry.wrong), 500 * chance,
                4 * std::sqrt(500 * chance * (1 - chance)));
  }
}

TEST(FedcorrLabels, ExactCountPicksTheRoundedShare) {
  World world = cifar().add(R"({"name": "fedcorr_labels", "exact_count": true})");
  for (const LedgerClient& entry : world.ledger.clients()) {
    EXPECT_EQ(entry.picked, std::llround(500 * entry.level));
  }
}

TEST(FedcorrLabels, AChosenClientWithoutAWrongLabelIsNoisy) {
  World world(4, 2, 2, 1);
  world.add(R"({"name": "fedcorr_labels", "rho": 1, "tau": 0, "exact_count": true})");
  EXPECT_THAT(world.ledger.noisy_clients(), ElementsAre(0, 1));
}

TEST(FedcorrLabels, NewLabelsCoverAllClassesUnlessAskedOtherwise) {
  const auto largest_new = [](const char* block) {
    std::int64_t largest = 0;
    const World world = World(50000, 100, 100, 1).add(block);
    for (const LedgerSample& entry : world.ledger.samples()) {
      largest = std::max(largest, entry.to);
    }
    return largest;
  };
  EXPECT_EQ(largest_new(R"({"name": "fedcorr_labels"})"), 99);
  EXPECT_EQ(largest_new(R"({"name": "fedcorr_labels", "labels_0_9": true})"), 9);
  EXPECT_THAT(error_text([] {
                World(90, 3, 3, 1).add(R"({"name": "fedcorr_labels", "labels_0_9": true})");
              }),
              HasSubstr("noise.labels_0_9 needs at least 10 classes, the data set has 3"));
}

TEST(ClipflLabels, FlipsInExactlyHalfTheClients) {
  for (const auto& [mu, share] : {std::pair{0.5, 0.25}, {0.8, 0.40}}) {
    World world(45000, 100, 10, 1);
    world.add(Json{{"name", "clipfl_labels"}, {"rho", 0.5}, {"mu", mu}}.dump().c_str());
    EXPECT_EQ(world.ledger.noisy_clients().size(), 50U);
    EXPECT_NEAR(world.wrong_share(), share, 4 * std::sqrt(22500 * mu * (1 - mu)) / 45000);
    for (const LedgerClient& entry : world.ledger.clients()) {
      if (entry.noisy) {
        EXPECT_EQ(entry.picked, entry.wrong);
        EXPECT_NEAR(static_cast<double>(entry.wrong), 450 * mu, 4 * std::sqrt(450 * mu * (1 - mu)));
      } else {
        EXPECT_EQ(entry.wrong, 0);
      }
    }
  }
}

TEST(ClipflLabels, CornerCases) {
  EXPECT_DOUBLE_EQ(cifar().add(R"({"name": "clipfl_labels", "rho": 1, "mu": 1})").wrong_share(), 1);
  EXPECT_DOUBLE_EQ(cifar().add(R"({"name": "clipfl_labels", "rho": 1, "mu": 0})").wrong_share(), 0);
  EXPECT_DOUBLE_EQ(cifar().add(R"({"name": "clipfl_labels", "rho": 0, "mu": 1})").wrong_share(), 0);
  EXPECT_THAT(error_text([] { World(10, 2, 1, 1).add(R"({"name": "clipfl_labels"})"); }),
              HasSubstr("noise: label noise needs at least 2 classes, the data set has 1"));
}

TEST(FedrnLabels, TheRampIsExact) {
  for (const char* type : {"symmetric", "pairflip"}) {
    for (const auto& [high, step, total] : {std::tuple{0.4, 2, 0.198}, {0.8, 4, 0.396}}) {
      World world = cifar().add(
          Json{{"name", "fedrn_labels"}, {"type", type}, {"high", high}}.dump().c_str());
      for (std::int64_t k = 0; k < 100; ++k) {
        EXPECT_EQ(world.wrong(static_cast<std::size_t>(k)), step * k) << type << " client " << k;
      }
      EXPECT_DOUBLE_EQ(world.wrong_share(), total);
      EXPECT_FALSE(world.ledger.is_noisy(0));
      EXPECT_TRUE(world.ledger.is_noisy(1));
    }
  }
}

TEST(FedrnLabels, MixedHasTwoRampsAndTwoTypes) {
  World world = cifar().add(R"({"name": "fedrn_labels", "type": "mixed", "high": 0.4})");
  for (std::int64_t k = 0; k < 100; ++k) {
    EXPECT_EQ(world.wrong(static_cast<std::size_t>(k)), 4 * (k % 50)) << k;
  }
  EXPECT_DOUBLE_EQ(world.wrong_share(), 0.196);
  EXPECT_FALSE(world.ledger.is_noisy(0));
  EXPECT_FALSE(world.ledger.is_noisy(50));
  int other_way = 0;
  for (const LedgerSample& entry : world.ledger.samples()) {
    const bool previous = entry.to == (entry.from + 9) % 10;
    if (entry.client >= 50) {
      EXPECT_TRUE(previous);
    } else {
      other_way += previous ? 0 : 1;
    }
  }
  EXPECT_GT(other_way, 4000);
}

TEST(FedrnLabels, TheSecondRangeFollowsTheFirstUnlessGiven) {
  const LabelNoise one = LabelNoise::parse(
      Json::parse(R"({"name": "fedrn_labels", "low": 0.1, "high": 0.2})"), builtin_label_noises());
  EXPECT_EQ(one.values().at("low2"), 0.1);
  EXPECT_EQ(one.values().at("high2"), 0.2);
  World world(50000, 100, 10, 1);
  world.add(R"({"name": "fedrn_labels", "type": "mixed", "high": 0.4, "high2": 0})");
  EXPECT_DOUBLE_EQ(world.wrong_share(), 0.098);
}

TEST(FedrnLabels, OneRateForEverybodyAndClean) {
  World constant = cifar().add(R"({"name": "fedrn_labels", "low": 0.3, "high": 0.3})");
  for (std::size_t k = 0; k < 100; ++k) {
    EXPECT_EQ(constant.wrong(k), 150);
  }
  EXPECT_DOUBLE_EQ(cifar().add(R"({"name": "fedrn_labels", "type": "clean"})").wrong_share(), 0.0);
}

TEST(FednclLabels, BernoulliClientsAreCleanOrFullyRedrawn) {
  World world(50000, 1000, 10, 1);
  world.add(R"({"name": "fedncl_bernoulli", "p": 0.7})");
  double noisy = 0.0;
  for (const LedgerClient& entry : world.ledger.clients()) {
    EXPECT_TRUE(entry.level == 0.0 || entry.level == 1.0);
    EXPECT_EQ(entry.picked, entry.level > 0.0 ? 50 : 0);
    noisy += entry.level / 1000.0;
  }
  EXPECT_NEAR(noisy, 0.3, 4 * 0.0145);
  EXPECT_NEAR(world.wrong_share() / noisy, 0.9, 0.0098);  // 4 sigma of 15,000 draws
  EXPECT_DOUBLE_EQ(cifar().add(R"({"name": "fedncl_bernoulli", "p": 1})").wrong_share(), 0.0);
}

TEST(FednclLabels, GaussianWrongShareIsNineTenthsOfTheLevels) {
  World world(50000, 1000, 10, 1);
  world.add(R"({"name": "fedncl_gaussian"})");
  double level = 0.0;
  for (const LedgerClient& entry : world.ledger.clients()) {
    level += entry.level / 1000.0;
  }
  EXPECT_NEAR(level, 0.346, 4 * 0.0095);
  EXPECT_NEAR(world.wrong_share(), 0.9 * level, 4 * 0.0021);
}

class LabelNoiseFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const char* name, const std::string& content) const {
    write_file_whole(folder_ / name, content);
    return (folder_ / name).string();
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / "winnow_label_noise_test";
};

TEST_F(LabelNoiseFiles, AMatrixFileIsTheSameAsTheMatrixInline) {
  const std::string path = file("t.csv", "0.5, 0.5, 0\n\n0 1.0 0\r\n0;0.25;0.75\n");
  World from_file(9000, 10, 3, 1);
  from_file.add(Json{{"name", "transition_matrix"}, {"file", path}}.dump().c_str());
  World nested(9000, 10, 3, 1);
  nested.add(R"({"name": "transition_matrix", "matrix": [[0.5,0.5,0],[0,1,0],[0,0.25,0.75]]})");
  World flat(9000, 10, 3, 1);
  flat.add(R"({"name": "transition_matrix", "matrix": [0.5,0.5,0, 0,1,0, 0,0.25,0.75]})");
  EXPECT_EQ(from_file.given, nested.given);
  EXPECT_EQ(from_file.given, flat.given);
  EXPECT_NEAR(from_file.wrong_share(), 0.25, 4 * 0.0038);
  EXPECT_DOUBLE_EQ(from_file.ledger.clients()[0].level, 0.25);
}

TEST_F(LabelNoiseFiles, AMatrixForAShareOfTheClients) {
  World world(9000, 10, 2, 1);
  world.add(R"({"name": "transition_matrix", "rho": 0.35, "matrix": [0, 1, 1, 0]})");
  EXPECT_EQ(world.ledger.noisy_clients().size(), 3U);
  EXPECT_DOUBLE_EQ(world.wrong_share(), 0.3);
}

TEST_F(LabelNoiseFiles, AWrongMatrixIsNamed) {
  const auto inline_error = [](const char* matrix) {
    return error_text([&] {
      const Json block{{"name", "transition_matrix"}, {"matrix", Json::parse(matrix)}};
      World(20, 2, 2, 1).add(block.dump().c_str());
    });
  };
  EXPECT_THAT(inline_error("[[1, 0], [0.4, 0.5]]"),
              HasSubstr("noise.matrix: row 1 sums to 0.9, expected 1"));
  EXPECT_THAT(inline_error("[1, 0, 0.4, 0.6, 0, 1]"),
              HasSubstr("noise.matrix: 6 numbers, expected 2 rows of 2"));
  EXPECT_THAT(inline_error("[[1, 0], [1]]"),
              HasSubstr("noise.matrix: row 1 is not a list of 2 numbers"));
  EXPECT_THAT(inline_error("[1, 0, -0.5, 1.5]"), HasSubstr("noise.matrix = "));
  EXPECT_EQ(inline_error("[1, 0, 0.4000004, 0.6]"), "no error");
  EXPECT_THAT(inline_error("[1, 0, 0.400004, 0.6]"), HasSubstr("row 1 sums to 1.000004"));
  const auto file_error = [this](const std::string& content) {
    return error_text([&] {
      const Json block{{"name", "transition_matrix"}, {"file", file("bad.txt", content)}};
      World(20, 2, 2, 1).add(block.dump().c_str());
    });
  };
  EXPECT_THAT(file_error("1 0\n0.4 0.5\n"), HasSubstr("bad.txt: row 1 sums to 0.9, expected 1"));
  EXPECT_THAT(file_error("1 0\n0.5 half\n"), HasSubstr("bad.txt line 2: 'half' is not a number"));
  EXPECT_THAT(file_error("1 0\n\n0.5 0.5 0\n"),
              HasSubstr("bad.txt line 3: 3 numbers, expected one for each of 2 classes"));
  EXPECT_THAT(file_error("1 0\n"), HasSubstr("bad.txt: 2 numbers, expected 2 rows of 2"));
  EXPECT_THAT(file_error("1 0\nnan 1\n"),
              HasSubstr("row 1 holds nan, expected numbers from 0 to 1"));
  EXPECT_THAT(error_text([] {
                World(20, 2, 2, 1).add(R"({"name": "transition_matrix", "file": "/nowhere.csv"})");
              }),
              HasSubstr("cannot read /nowhere.csv: no such file"));
}

TEST_F(LabelNoiseFiles, HumanLabelsReplaceAllLabelsOfTheirClients) {
  // Samples alternate 0, 1, 2; people confuse 2 with 0.
  std::string labels;
  for (int i = 0; i < 90; ++i) {
    labels += std::to_string(i % 3 == 2 ? 0 : i % 3) + "\n";
  }
  const std::string path = file("human.txt", labels);
  World all(90, 10, 3, 1);
  all.add(Json{{"name", "human_labels"}, {"file", path}}.dump().c_str());
  EXPECT_DOUBLE_EQ(all.wrong_share(), 1.0 / 3.0);
  EXPECT_THAT(all.given[4], ElementsAre(0, 1, 0, 0, 1, 0, 0, 1, 0));
  EXPECT_EQ(all.ledger.clients()[4].picked, 9);
  World some(90, 10, 3, 1);
  some.add(Json{{"name", "human_labels"}, {"file", path}, {"rho", 0.7}}.dump().c_str());
  EXPECT_EQ(some.ledger.noisy_clients().size(), 7U);
  EXPECT_DOUBLE_EQ(some.wrong_share(), 7 * 3 / 90.0);
}

// People name every sample of 1,000 the next class, so that what was taken is what is wrong.
TEST_F(LabelNoiseFiles, HumanLabelsCanBeTakenForAShareOfTheSamples) {
  std::string labels;
  for (int i = 0; i < 1000; ++i) {
    labels += std::to_string((i + 1) % 4) + "\n";
  }
  const Json block{{"name", "human_labels"}, {"file", file("next.txt", labels)}};
  const auto with = [&](const Json& more) {
    Json changed = block;
    changed.update(more);
    World world(1000, 10, 4, 3);
    world.add(changed.dump().c_str());
    return world;
  };
  const World same = with({{"level", 0.255}, {"rho", 0.5}});
  int clean = 0;
  for (const LedgerClient& client : same.ledger.clients()) {
    EXPECT_EQ(client.picked, client.wrong);
    EXPECT_TRUE(client.wrong == 0 || client.wrong == 25) << "floor of 25.5, " << client.wrong;
    clean += client.wrong == 0 ? 1 : 0;
  }
  EXPECT_EQ(clean, 5);

  const World gaussian = with({{"levels", "gaussian"}, {"mean", 0.5}, {"std", 0.2}});
  std::set<std::int64_t> counts;
  for (const LedgerClient& client : gaussian.ledger.clients()) {
    EXPECT_EQ(client.picked, client.wrong);
    EXPECT_NEAR(static_cast<double>(client.wrong) / 100.0, client.level, 0.2);
    counts.insert(client.wrong);
  }
  EXPECT_GT(counts.size(), 5U) << "every client has a share of its own";
  const World narrow =
      with({{"levels", "gaussian"}, {"mean", 0.5}, {"std", 0.2}, {"clients", {2, 7}}});
  EXPECT_EQ(narrow.given[2], gaussian.given[2]);
  EXPECT_EQ(narrow.wrong(3), 0);
  EXPECT_DOUBLE_EQ(with({{"levels", "gaussian"}, {"mean", 9}}).wrong_share(), 1.0) << "cut to 1";
  EXPECT_DOUBLE_EQ(with({{"levels", "gaussian"}, {"mean", -9}}).wrong_share(), 0.0) << "cut to 0";
}

TEST(LabelNoise, AMissingFileOfHumanLabelsSaysWhereTheyComeFrom) {
  const auto block = [] {
    World(90, 10, 3, 1).add(R"({"name": "human_labels", "file": "data/cifar10n_worse.npy"})");
  };
  EXPECT_EQ(error_text(block),
            "noise.file = \"data/cifar10n_worse.npy\": no such file | put it there or into data/; "
            "docs/noise.md shows how to make those of CIFAR-10N and CIFAR-100N");
}

TEST_F(LabelNoiseFiles, HumanLabelsOfAnotherSetAreRefused) {
  const std::string path = file("human.txt", "0\n1\n2\n");
  const std::string text = error_text([&] {
    World(90, 10, 3, 1).add(Json{{"name", "human_labels"}, {"file", path}}.dump().c_str());
  });
  EXPECT_THAT(text, HasSubstr("human.txt"));
  EXPECT_THAT(text, HasSubstr("90"));
}

TEST(LabelNoise, ParseTellsWhatIsWrong) {
  const auto parse = [](const char* text) {
    return error_text([&] { LabelNoise::parse(Json::parse(text), builtin_label_noises()); });
  };
  EXPECT_THAT(parse(R"({"name": "fedcorr_labels", "rho": 1.2})"),
              HasSubstr("noise.rho = 1.2: expected a number from 0 to 1"));
  EXPECT_THAT(parse(R"({"name": "clipfl_labels", "mu": 1.5})"),
              HasSubstr("noise.mu = 1.5: expected a number from 0 to 1"));
  EXPECT_THAT(parse(R"({"name": "clipfl_labels", "tau": 0.5})"),
              HasSubstr("unknown key 'noise.tau'"));
  EXPECT_THAT(parse(R"({"name": "clipfl_label"})"),
              HasSubstr("noise: unknown noise 'clipfl_label' | did you mean 'clipfl_labels'?"));
  EXPECT_THAT(parse(R"({"rho": 0.5})"), HasSubstr("noise: expected a table with a name"));
  EXPECT_THAT(parse(R"({"name": "fedrn_labels", "type": "asymmetric"})"),
              HasSubstr("expected one of symmetric, pairflip, mixed, clean"));
  EXPECT_THAT(parse(R"({"name": "fedrn_labels", "low": 0.5})"),
              HasSubstr("noise.high = 0.4: expected at least the low end 0.5"));
  EXPECT_THAT(parse(R"({"name": "fedcorr_labels", "clients": [1, 2], "share": 0.5})"),
              HasSubstr("noise: both clients and share restrict the block | keep one of them"));
  EXPECT_THAT(parse(R"({"name": "fedcorr_labels", "clients": [1, 3, 1]})"),
              HasSubstr("noise.clients names 1 twice"));
  EXPECT_THAT(parse(R"({"name": "fedcorr_labels", "clients": [-1]})"),
              HasSubstr("noise.clients = [-1]"));
  EXPECT_THAT(parse(R"({"name": "transition_matrix"})"),
              HasSubstr("noise: expected either file or matrix"));
  EXPECT_THAT(parse(R"({"name": "human_labels"})"), HasSubstr("noise.file is missing"));
}

TEST(LabelNoise, AnIdOutsideTheFederationIsNamed) {
  EXPECT_THAT(
      error_text([] { World(90, 3, 3, 1).add(R"({"name": "clipfl_labels", "clients": [0, 3]})"); }),
      HasSubstr("noise.clients names 3, but the clients are 0 to 2"));
}

TEST(LabelNoise, GivenLabelsThatDoNotFitAreRefused) {
  World world(90, 3, 3, 1);
  world.given[1].pop_back();
  EXPECT_THAT(error_text([&] { world.add(R"({"name": "clipfl_labels"})"); }),
              HasSubstr("the given labels do not fit the partition"));
}

TEST(LabelNoise, ValuesHoldEveryDefaultAndReadBack) {
  EXPECT_EQ(
      LabelNoise::parse(Json{{"name", "fedcorr_labels"}}, builtin_label_noises()).values().dump(),
      R"({"name":"fedcorr_labels","rho":0.6,"tau":0.5,"exact_count":false,)"
      R"("labels_0_9":false,"clients":[],"share":1.0})");
  for (const char* block : kBlocks) {
    const LabelNoise noise = LabelNoise::parse(Json::parse(block), builtin_label_noises());
    EXPECT_EQ(LabelNoise::parse(noise.values(), builtin_label_noises()).values(), noise.values());
  }
}

}  // namespace winnow::label_noise_test

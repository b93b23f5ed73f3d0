#include "winnow/data/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "testing/errors.h"
#include "winnow/base/error.h"
#include "winnow/base/random.h"
#include "winnow/data/partition_rules.h"

namespace winnow::partition_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Labels = std::vector<std::int64_t>;

// Equally many samples of each class, in a random order as in the CIFAR files.
Labels mixed_labels(std::int64_t n, std::int64_t classes) {
  Labels labels(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int64_t>(i) % classes;
  }
  Stream(99, "test labels").shuffle(std::span<std::int64_t>(labels));
  return labels;
}

Assignment make(const char* text, const Labels& labels, std::int64_t classes, std::int64_t clients,
                std::uint64_t seed = 1) {
  return Partition::parse(Json::parse(text), builtin_partitions())
      .make(labels, classes, clients, seed);
}

std::vector<std::size_t> sizes_of(const Assignment& assign) {
  std::vector<std::size_t> sizes;
  for (const auto& list : assign) {
    sizes.push_back(list.size());
  }
  return sizes;
}

std::size_t total(const Assignment& assign) {
  const auto sizes = sizes_of(assign);
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

std::set<std::int64_t> classes_of(const std::vector<std::int64_t>& list, const Labels& labels) {
  std::set<std::int64_t> classes;
  for (const std::int64_t i : list) {
    classes.insert(labels[static_cast<std::size_t>(i)]);
  }
  return classes;
}

// Mean over clients of the total-variation distance to the uniform distribution over the classes.
double mean_distance(const Assignment& assign, const Labels& labels, std::size_t classes) {
  double sum = 0.0;
  for (const auto& list : assign) {
    std::vector<double> share(classes, 0.0);
    for (const std::int64_t i : list) {
      share[static_cast<std::size_t>(labels[static_cast<std::size_t>(i)])] +=
          1.0 / static_cast<double>(list.size());
    }
    for (const double s : share) {
      sum += 0.5 * std::abs(s - 1.0 / static_cast<double>(classes));
    }
  }
  return sum / static_cast<double>(assign.size());
}

TEST(Partition, EveryEntryGivesDisjointListsInsideTheSetAndRepeatsWithItsSeed) {
  const Labels labels = mixed_labels(2003, 10);
  for (const PartitionInfo& info : builtin_partitions()) {
    SCOPED_TRACE(info.name);
    const Partition partition = Partition::parse(Json(info.name), builtin_partitions());
    const Assignment assign = partition.make(labels, 10, 20, 7);
    ASSERT_EQ(assign.size(), 20U);
    std::set<std::int64_t> seen;
    for (const auto& list : assign) {
      EXPECT_FALSE(list.empty());
      for (const std::int64_t i : list) {
        EXPECT_TRUE(i >= 0 && i < 2003);
        EXPECT_TRUE(seen.insert(i).second) << "sample " << i << " is held twice";
      }
    }
    EXPECT_EQ(assign, partition.make(labels, 10, 20, 7));
    EXPECT_NE(assign, partition.make(labels, 10, 20, 8));
    EXPECT_EQ(assign,
              Partition::parse(partition.values(), builtin_partitions()).make(labels, 10, 20, 7));
  }
}

TEST(Partition, IidFloorDropsTheRemainderAndIidSplitDoesNot) {
  const Labels labels = mixed_labels(103, 10);
  EXPECT_THAT(sizes_of(make(R"("iid_floor")", labels, 10, 10)), ::testing::Each(10U));
  EXPECT_THAT(sizes_of(make(R"("iid_split")", labels, 10, 10)),
              ElementsAre(11, 11, 11, 10, 10, 10, 10, 10, 10, 10));
}

TEST(Partition, IidSizesOfThePapers) {
  const Labels cifar = mixed_labels(50000, 10);
  EXPECT_THAT(sizes_of(make(R"("iid_floor")", cifar, 10, 100)), ::testing::Each(500U));
  EXPECT_THAT(sizes_of(make(R"("iid_split")", cifar, 10, 100)), ::testing::Each(500U));
  EXPECT_THAT(sizes_of(make(R"("iid_split")", mixed_labels(45000, 10), 10, 100)),
              ::testing::Each(450U));
}

TEST(Partition, IidRandomKeepsEverySampleWithBinomialSizes) {
  const Assignment assign = make(R"("iid_random")", mixed_labels(50000, 10), 10, 20);
  EXPECT_EQ(total(assign), 50000U);
  const auto sizes = sizes_of(assign);
  // Binomial(50000, 1/20): standard deviation 48.7.
  EXPECT_GT(std::ranges::min(sizes), 2500U - 4 * 49);
  EXPECT_LT(std::ranges::max(sizes), 2500U + 4 * 49);
  EXPECT_NE(std::ranges::min(sizes), std::ranges::max(sizes));
}

TEST(Partition, IidLognormalHasSizesOfTheGivenSpread) {
  EXPECT_EQ(scaled_counts(std::vector{1.0, 2.0, 4.0}, 10), (std::vector<std::int64_t>{3, 2, 5}));
  const Labels labels = mixed_labels(50000, 10);
  const Assignment assign = make(R"("iid_lognormal")", labels, 10, 400);
  EXPECT_EQ(total(assign), 50000U);
  double sum = 0.0;
  double squares = 0.0;
  for (const std::size_t size : sizes_of(assign)) {
    const double logarithm = std::log(static_cast<double>(size));
    sum += logarithm;
    squares += logarithm * logarithm;
  }
  const double mean = sum / 400;
  EXPECT_NEAR(std::sqrt(squares / 400 - mean * mean), 0.3, 0.05) << "the default of sigma";
  EXPECT_THAT(sizes_of(make(R"({"name": "iid_lognormal", "sigma": 0})", labels, 10, 100)),
              ::testing::Each(500U));
  EXPECT_THAT(
      sizes_of(make(R"({"name": "iid_lognormal", "sigma": 0})", mixed_labels(103, 10), 10, 10)),
      ElementsAre(13, 10, 10, 10, 10, 10, 10, 10, 10, 10))
      << "the first client takes what is left over";
}

TEST(Partition, ShardsGiveEqualSizesAndFewClasses) {
  const Labels cifar = mixed_labels(50000, 10);
  for (const std::size_t s : {2UL, 5UL}) {
    const Assignment assign =
        Partition::parse(Json{{"name", "shards"}, {"shards_per_client", s}}, builtin_partitions())
            .make(cifar, 10, 100, 1);
    EXPECT_THAT(sizes_of(assign), ::testing::Each(500U));
    for (const auto& list : assign) {
      EXPECT_LE(classes_of(list, cifar).size(), s);
    }
  }
  const Labels cifar100 = mixed_labels(50000, 100);
  for (const auto& list :
       make(R"({"name": "shards", "shards_per_client": 20})", cifar100, 100, 100)) {
    EXPECT_EQ(list.size(), 500U);
    EXPECT_LE(classes_of(list, cifar100).size(), 20U);
  }
}

TEST(Partition, ShardsDropOnlyTheEndOfTheHighestClass) {
  const Labels labels = mixed_labels(1050, 10);
  const Assignment assign = make(R"("shards")", labels, 10, 4);
  EXPECT_THAT(sizes_of(assign), ::testing::Each(262U));
  std::vector<int> held(10, 0);
  for (const auto& list : assign) {
    for (const std::int64_t i : list) {
      ++held[static_cast<std::size_t>(labels[static_cast<std::size_t>(i)])];
    }
  }
  EXPECT_THAT(held, ElementsAre(105, 105, 105, 105, 105, 105, 105, 105, 105, 103));
}

TEST(Partition, TwoShardsMeetInOneClassAsOftenAsChanceSays) {
  const Labels cifar = mixed_labels(50000, 10);
  int one_class = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    for (const auto& list : make(R"("shards")", cifar, 10, 100, seed)) {
      one_class += classes_of(list, cifar).size() == 1 ? 1 : 0;
    }
  }
  // 4000 clients at 19/199: mean 381.9, standard deviation about 18.6.
  EXPECT_NEAR(one_class, 381.9, 4 * 18.6);
}

TEST(Partition, DirichletClassKeepsEverySampleAndSkewsTheClasses) {
  const Labels cifar = mixed_labels(50000, 10);
  const Assignment assign = make(R"({"name": "dirichlet_class", "alpha": 0.5})", cifar, 10, 100);
  EXPECT_EQ(total(assign), 50000U);
  EXPECT_GE(std::ranges::min(sizes_of(assign)), 15U);
  const double distance = mean_distance(assign, cifar, 10);
  EXPECT_GT(distance, 0.4);
  EXPECT_LT(distance, 0.6);
  double classes = 0.0;
  for (const auto& list : assign) {
    classes += static_cast<double>(classes_of(list, cifar).size()) / 100.0;
  }
  EXPECT_NEAR(classes, 8.2, 0.5);
}

TEST(Partition, ALargeAlphaGivesEqualShares) {
  const Labels cifar = mixed_labels(50000, 10);
  const Assignment assign = make(R"({"name": "dirichlet_class", "alpha": 1e6})", cifar, 10, 100);
  EXPECT_LT(mean_distance(assign, cifar, 10), 0.02);
  EXPECT_GT(std::ranges::min(sizes_of(assign)), 480U);
}

TEST(Partition, DirichletClassTakesTheSmallestClientOfFedNs) {
  const Labels cifar = mixed_labels(50000, 10);
  const Assignment assign = make(R"({"name": "dirichlet_class", "min_size": 10})", cifar, 10, 20);
  EXPECT_GE(std::ranges::min(sizes_of(assign)), 10U);
  EXPECT_EQ(total(assign), 50000U);
}

TEST(Partition, AClassWithoutSamplesIsNoTrouble) {
  const Assignment assign = make(R"("dirichlet_class")", mixed_labels(1000, 5), 10, 5);
  EXPECT_EQ(total(assign), 1000U);
  EXPECT_EQ(total(make(R"("bernoulli_dirichlet")", mixed_labels(1000, 5), 10, 5)), 1000U);
}

TEST(Partition, LabelBlindSkewsTheSizesOnlyEvenOnASortedSet) {
  Labels sorted = mixed_labels(50000, 10);
  const Labels mixed = sorted;
  std::ranges::sort(sorted);
  for (const Labels& labels : {mixed, sorted}) {
    const Assignment assign = make(R"("dirichlet_label_blind")", labels, 10, 100);
    EXPECT_EQ(total(assign), 50000U);
    EXPECT_LT(mean_distance(assign, labels, 10), 0.1);
    const auto sizes = sizes_of(assign);
    EXPECT_GE(std::ranges::min(sizes), 10U);
    EXPECT_LT(std::ranges::min(sizes), 300U);
    EXPECT_GT(std::ranges::max(sizes), 700U);
  }
}

TEST(Partition, LabelBlindLeavesTheLastFewSamplesOut) {
  EXPECT_EQ(total(make(R"("dirichlet_label_blind")", mixed_labels(2007, 10), 10, 5)), 2000U);
}

TEST(Partition, BernoulliDirichletKeepsEverySampleInThePaperSettings) {
  const Labels cifar = mixed_labels(50000, 10);
  for (const auto& [p, alpha, spread] :
       {std::tuple{0.7, 10.0, 122.0}, {0.7, 1.0, 206.0}, {0.3, 10.0, 238.0}}) {
    const Assignment assign =
        Partition::parse(Json{{"name", "bernoulli_dirichlet"}, {"p", p}, {"alpha", alpha}},
                         builtin_partitions())
            .make(cifar, 10, 100, 1);
    EXPECT_EQ(total(assign), 50000U);
    EXPECT_GE(std::ranges::min(sizes_of(assign)), 2U);
    double square = 0.0;
    for (const std::size_t size : sizes_of(assign)) {
      square += std::pow(static_cast<double>(size) - 500.0, 2) / 100.0;
    }
    EXPECT_NEAR(std::sqrt(square), spread, 0.3 * spread);
  }
}

TEST(Partition, OneClientGetsEverything) {
  EXPECT_EQ(
      total(make(R"({"name": "bernoulli_dirichlet", "p": 0.3})", mixed_labels(100, 10), 10, 1)),
      100U);
  EXPECT_EQ(total(make(R"("dirichlet_class")", mixed_labels(100, 10), 10, 1)), 100U);
}

TEST(Partition, AClassNobodyChoseIsDrawnAgain) {
  const Labels labels = mixed_labels(400, 10);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    EXPECT_EQ(total(make(R"({"name": "bernoulli_dirichlet", "p": 0.3})", labels, 10, 4, seed)),
              400U);
  }
}

TEST(Partition, TooFewSamplesIsOneClearLine) {
  const Labels labels = mixed_labels(9, 3);
  for (const PartitionInfo& info : builtin_partitions()) {
    EXPECT_THAT(error_text([&] {
                  Partition::parse(Json(info.name), builtin_partitions()).make(labels, 3, 10, 1);
                }),
                HasSubstr(info.name + ": fewer samples than clients (9 samples, clients = 10) | "
                                      "lower federation.clients"));
  }
  EXPECT_THAT(
      error_text([&] { make(R"("shards")", labels, 3, 9); }),
      HasSubstr("fewer samples than shards (9 samples, clients = 9, shards_per_client = 2)"));
  EXPECT_THAT(error_text([&] { make(R"("dirichlet_label_blind")", labels, 3, 1); }),
              HasSubstr("dirichlet_label_blind: 9 samples, expected at least 10"));
}

TEST(Partition, AnUnreachableSizeNamesTheNumbersToChange) {
  EXPECT_THAT(error_text([&] { make(R"("dirichlet_class")", mixed_labels(200, 10), 10, 10); }),
              HasSubstr("dirichlet_class: clients * min_size is more than half of the 200 samples "
                        "(clients = 10, min_size = 15) | lower federation.clients or min_size"));
  EXPECT_THAT(
      error_text([&] {
        make(R"({"name": "dirichlet_class", "alpha": 0.01})", mixed_labels(3000, 10), 10, 100);
      }),
      HasSubstr("dirichlet_class: none of 1000 draws gave every client min_size samples "
                "(alpha = 0.01, clients = 100, min_size = 15, 3000 samples) | raise alpha"));
  EXPECT_THAT(error_text([&] {
                make(R"({"name": "bernoulli_dirichlet", "alpha": 0.01, "p": 0.3, "min_size": 21})",
                     mixed_labels(2100, 10), 10, 100);
              }),
              HasSubstr("none of 100 draws gave every client min_size samples (p = 0.3, alpha = "
                        "0.01, clients = 100, min_size = 21, 2100 samples)"));
  EXPECT_THAT(error_text([&] {
                make(R"({"name": "iid_random", "min_size": 10})", mixed_labels(100, 10), 10, 10);
              }),
              HasSubstr("none of 100 draws gave every client min_size samples (clients = 10, "
                        "min_size = 10, 100 samples) | lower federation.clients or min_size"));
  EXPECT_THAT(error_text([&] {
                make(R"({"name": "iid_lognormal", "sigma": 5, "min_size": 10})",
                     mixed_labels(100, 10), 10, 10);
              }),
              HasSubstr("iid_lognormal: none of 100 draws gave every client min_size samples "
                        "(sigma = 5, clients = 10, min_size = 10, 100 samples) | lower sigma, "
                        "federation.clients or min_size"));
}

TEST(Partition, BadInputIsNamed) {
  EXPECT_THAT(error_text([] {
                make(R"("iid_split")", {0, 1, 2}, 3, 0);
              }),
              HasSubstr("federation.clients = 0: expected at least 1"));
  EXPECT_THAT(error_text([] {
                make(R"("iid_split")", {0, 3, 2}, 3, 1);
              }),
              HasSubstr("label 3 of sample 1 is not one of the 3 classes"));
}

TEST(Partition, KnownNamesStandForThoseOfTheTable) {
  const auto values = [](const char* text) {
    return Partition::parse(Json::parse(text), builtin_partitions()).values();
  };
  EXPECT_EQ(values(R"("iid")"), values(R"("iid_split")"));
  EXPECT_EQ(values(R"({"name": "iid"})"), values(R"("iid_split")"));
  EXPECT_EQ(values(R"("dirichlet")"), values(R"("dirichlet_class")"));
  EXPECT_EQ(values(R"({"name": "dirichlet", "alpha": 0.1})"),
            values(R"({"name": "dirichlet_class", "alpha": 0.1})"));
  for (const PartitionAlias& alias : partition_aliases()) {
    EXPECT_EQ(std::ranges::count(builtin_partitions(), alias.name, &PartitionInfo::name), 0)
        << alias.name;
    EXPECT_EQ(Partition::parse(Json(alias.name), builtin_partitions()).name(), alias.stands_for);
  }
}

TEST(Partition, ParseTellsWhatIsWrong) {
  const auto parse = [](const char* text) {
    return error_text([&] { Partition::parse(Json::parse(text), builtin_partitions()); });
  };
  EXPECT_THAT(parse(R"("dirichlet_clas")"),
              HasSubstr("federation.partition: unknown partition 'dirichlet_clas' | did you mean "
                        "'dirichlet_class'?"));
  EXPECT_THAT(parse(R"({"name": "dirichlet_class", "alfa": 1})"),
              HasSubstr("unknown key 'federation.partition.alfa' | did you mean 'alpha'?"));
  EXPECT_THAT(parse(R"({"name": "iid_split", "alpha": 1})"), HasSubstr("unknown key"));
  EXPECT_THAT(parse(R"("non-iid")"),
              HasSubstr("unknown partition 'non-iid' | did you mean 'dirichlet'?"));
  EXPECT_THAT(
      parse(R"({"name": "dirichlet_class", "alpha": 0})"),
      HasSubstr("federation.partition.alpha = 0: expected a number from 0.001 to 1,000,000"));
  EXPECT_THAT(parse(R"({"alpha": 0.5})"), HasSubstr("expected a name or a table with a name"));
  EXPECT_THAT(parse("3"), HasSubstr("federation.partition = 3: expected a name or a table"));
}

TEST(Partition, ValuesHoldTheDefaultsOfTheEntry) {
  EXPECT_EQ(Partition().values().dump(), R"({"name":"iid_split"})");
  EXPECT_EQ(Partition::parse(Json("dirichlet_class"), builtin_partitions()).values().dump(),
            R"({"name":"dirichlet_class","alpha":0.5,"min_size":15})");
  EXPECT_EQ(
      Partition::parse(Json("dirichlet_label_blind"), builtin_partitions()).values()["min_size"],
      10);
  EXPECT_EQ(Partition::parse(Json{{"name", "bernoulli_dirichlet"}, {"min_size", 21}},
                             builtin_partitions())
                .values()
                .dump(),
            R"({"name":"bernoulli_dirichlet","p":0.7,"alpha":10.0,"min_size":21})");
}

}  // namespace winnow::partition_test

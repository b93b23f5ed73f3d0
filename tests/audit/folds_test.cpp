#include "winnow/audit/folds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "testing/errors.h"

namespace winnow::folds_test {

using ::testing::HasSubstr;

std::vector<ClientData> clients_of(std::size_t count, std::int64_t samples, std::int64_t classes) {
  std::vector<ClientData> clients(count);
  std::int64_t next = 0;
  for (ClientData& client : clients) {
    for (std::int64_t i = 0; i < samples; ++i, ++next) {
      client.samples.push_back(next);
      client.given.push_back(next % classes);
    }
  }
  return clients;
}

TEST(Folds, AClientIsJudgedAsAWholeAndEveryFoldHasAsManyClients) {
  const std::vector<ClientData> clients = clients_of(12, 20, 4);
  const Folds folds = make_folds(clients, 4, 5, 1, 0);
  EXPECT_TRUE(folds.over_clients);
  std::map<std::int64_t, int> sizes;
  for (std::size_t client = 0; client < clients.size(); ++client) {
    EXPECT_EQ(std::set(folds.of[client].begin(), folds.of[client].end()),
              std::set{folds.of_clients[client]});
    ++sizes[folds.of_clients[client]];
  }
  ASSERT_EQ(sizes.size(), 5U);
  for (const auto& [fold, size] : sizes) {
    EXPECT_TRUE(size == 2 || size == 3) << fold;
  }
  EXPECT_EQ(make_folds(clients, 4, 5, 1, 0).of, folds.of);
  EXPECT_NE(make_folds(clients, 4, 5, 1, 1).of, folds.of);
}

TEST(Folds, NobodyTrainsOnWhatHisFoldJudges) {
  const std::vector<ClientData> clients = clients_of(7, 10, 3);
  const Folds folds = make_folds(clients, 3, 3, 2, 0);
  for (std::int64_t fold = 0; fold < 3; ++fold) {
    std::set<std::int64_t> trained;
    for (const ClientData& client : without_fold(clients, folds, fold, 4)) {
      trained.insert(client.samples.begin(), client.samples.end());
    }
    for (std::size_t client = 0; client < clients.size(); ++client) {
      for (const std::int64_t sample : clients[client].samples) {
        EXPECT_EQ(trained.contains(sample), folds.of_clients[client] != fold);
      }
    }
  }
}

TEST(Folds, OneOwnersSamplesAreDealtOutByGivenLabel) {
  const std::vector<ClientData> clients = clients_of(1, 100, 4);
  const Folds folds = make_folds(clients, 4, 5, 1, 0);
  EXPECT_FALSE(folds.over_clients);
  std::map<std::pair<std::int64_t, std::int64_t>, int> counts;
  for (std::size_t i = 0; i < 100; ++i) {
    ++counts[{folds.of[0][i], clients[0].given[i]}];
  }
  ASSERT_EQ(counts.size(), 20U);
  for (const auto& [key, count] : counts) {
    EXPECT_EQ(count, 5);
  }
  const std::vector<ClientData> parts = without_fold(clients, folds, 0, 4);
  ASSERT_EQ(parts.size(), 4U);
  for (const ClientData& part : parts) {
    EXPECT_EQ(part.samples.size(), 20U);
    EXPECT_EQ(part.given.size(), 20U);
  }
}

TEST(Folds, TooFewSamplesAreRefused) {
  EXPECT_THAT(error_text([] { make_folds(clients_of(1, 9, 3), 3, 5, 1, 0); }),
              HasSubstr("9 samples are too few for 5 folds | lower --folds"));
}

}  // namespace winnow::folds_test

#include "winnow/federation/by_client.h"

#include <gtest/gtest.h>

#include <map>

#include "testing/support.h"
#include "winnow/base/random.h"

namespace winnow::by_client_test {

using Map = std::map<std::int64_t, int>;

Map as_map(const ByClient<int>& entries) {
  return {entries.begin(), entries.end()};
}

std::vector<std::int64_t> changes(const ByClient<int>& now, const ByClient<int>& before) {
  std::vector<std::int64_t> clients;
  now.each_change(before, std::equal_to<>(), [&](std::int64_t c) { clients.push_back(c); });
  return clients;
}

TEST(ByClient, IsAMap) {
  ByClient<int> entries;
  EXPECT_TRUE(entries.empty());
  EXPECT_EQ(entries.begin(), entries.end());
  entries[700] = 7;
  entries[3] = 3;
  entries.emplace(3, 4);
  ++entries[3];
  EXPECT_EQ(as_map(entries), (Map{{3, 4}, {700, 7}}));
  EXPECT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries.find(4), entries.end());
  EXPECT_EQ(entries.find(-1), entries.end());
  EXPECT_EQ(entries.find(9999), entries.end());
  EXPECT_EQ(entries.find(700)->second, 7);
  entries.erase(3);
  entries.erase(3);
  EXPECT_EQ(as_map(entries), (Map{{700, 7}}));
  EXPECT_EQ(error_text([&] { std::ignore = entries.at(3); }), "there is nothing of client 3");
  EXPECT_EQ(error_text([&] { entries[-1] = 2; }), "-1 cannot be the id of a client");
  entries.clear();
  EXPECT_TRUE(entries.empty());
  EXPECT_EQ(as_map(ByClient<int>(Map{{1, 2}})), (Map{{1, 2}}));
}

// Against std::map, with copies taken on the way.
TEST(ByClient, CopiesStayAsTheyWereAndDifferencesAreFound) {
  Stream stream(5, "by client");
  ByClient<int> entries;
  Map expected;
  for (int round = 0; round < 50; ++round) {
    const ByClient<int> before = entries;
    const Map known = expected;
    for (int i = 0; i < 20; ++i) {
      const auto client = static_cast<std::int64_t>(stream.below(3000));
      if (stream.below(4) == 0) {
        entries.erase(client);
        expected.erase(client);
      } else {
        const int value = static_cast<int>(stream.below(3));
        entries[client] = value;
        expected[client] = value;
      }
    }
    EXPECT_EQ(as_map(entries), expected);
    EXPECT_EQ(entries.size(), expected.size());
    EXPECT_EQ(as_map(before), known);
    std::vector<std::int64_t> changed;
    for (std::int64_t client = 0; client < 3000; ++client) {
      const auto now = expected.find(client);
      const auto then = known.find(client);
      const bool same = (now == expected.end()) == (then == known.end()) &&
                        (now == expected.end() || now->second == then->second);
      if (!same) {
        changed.push_back(client);
      }
    }
    EXPECT_EQ(changes(entries, before), changed);
    EXPECT_EQ(changes(before, entries), changed);
  }
}

}  // namespace winnow::by_client_test

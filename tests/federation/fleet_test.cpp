#include "winnow/federation/fleet.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "testing/support.h"

namespace winnow::fleet_test {

FakeFleet fleet_of(std::vector<std::int64_t> sizes) {
  return {std::move(sizes), [](std::int64_t, const Message& task) { return task; }};
}

std::vector<Order> orders_for(const std::vector<std::int64_t>& clients) {
  std::vector<Order> orders;
  for (const std::int64_t client : clients) {
    orders.push_back({client, Message("ping")});
  }
  return orders;
}

TEST(FoldOrder, TakesLargeClientsFirstThenLowIds) {
  const FakeFleet fleet = fleet_of({10, 30, 10, 20, 30, 0});
  EXPECT_EQ(fold_order(orders_for({0, 1, 2, 3, 4, 5}), fleet),
            (std::vector<std::size_t>{1, 4, 3, 0, 2, 5}));
}

TEST(FoldOrder, IsTheSameClientsHoweverTheOrdersCome) {
  const FakeFleet fleet = fleet_of({10, 30, 10, 20, 30, 0});
  std::vector<std::int64_t> clients{0, 2, 3, 4, 5};
  do {
    const std::vector<Order> orders = orders_for(clients);
    std::vector<std::int64_t> folded;
    for (const std::size_t place : fold_order(orders, fleet)) {
      folded.push_back(orders[place].client);
    }
    ASSERT_EQ(folded, (std::vector<std::int64_t>{4, 3, 0, 2, 5}));
  } while (std::next_permutation(clients.begin(), clients.end()));
}

TEST(FoldOrder, OfNothingIsEmpty) {
  EXPECT_TRUE(fold_order({}, fleet_of({1, 2})).empty());
}

TEST(ClientsWithSamples, AreThoseWorthSelecting) {
  EXPECT_EQ(fleet_of({0, 3, 0, 1, 9, 0}).with_samples().ids(),
            (std::vector<std::int64_t>{1, 3, 4}));
  EXPECT_TRUE(fleet_of({0, 0}).with_samples().empty());
}

}  // namespace winnow::fleet_test

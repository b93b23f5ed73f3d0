#include "winnow/federation/absence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "testing/support.h"

namespace winnow::absence_test {

FakeFleet echo_fleet(std::size_t clients) {
  return {std::vector<std::int64_t>(clients, 5),
          [](std::int64_t, const Message&) { return Message("pong"); }};
}

std::vector<Order> pings(std::int64_t clients) {
  std::vector<Order> orders;
  for (std::int64_t client = 0; client < clients; ++client) {
    orders.push_back({client, Message("ping")});
  }
  return orders;
}

const auto kIgnore = [](std::int64_t, const Message&) {};

TEST(AbsentFleet, WithoutDropoutIsTheFleetItself) {
  FakeFleet inner = echo_fleet(50);
  AbsentFleet fleet(inner, 0.0, 7);
  fleet.begin(0);
  EXPECT_TRUE(fleet.ask(pings(50), kIgnore).empty());
  EXPECT_EQ(inner.asked.size(), 50U);
  EXPECT_TRUE(fleet.absences().empty());
}

TEST(AbsentFleet, DrawsEveryOrderByItsKeyAlone) {
  FakeFleet inner = echo_fleet(1000);
  AbsentFleet fleet(inner, 0.3, 7);
  fleet.begin(4);
  const std::vector<Absence> first = fleet.ask(pings(1000), kIgnore);
  const std::vector<Absence> second = fleet.ask(pings(1000), kIgnore);
  EXPECT_NEAR(static_cast<double>(first.size()), 300, 60);
  EXPECT_NE(first, second) << "another ask, another draw";
  EXPECT_EQ(inner.asked.size(), 2000U - first.size() - second.size());
  EXPECT_EQ(fleet.absences().size(), first.size() + second.size());
  fleet.begin(4);
  EXPECT_EQ(fleet.ask(pings(1000), kIgnore), first);
  fleet.begin(5);
  EXPECT_NE(fleet.ask(pings(1000), kIgnore), first) << "another round";
  AbsentFleet other(inner, 0.3, 8);
  other.begin(4);
  EXPECT_NE(other.ask(pings(1000), kIgnore), first) << "another seed";
  fleet.begin(4);
  const std::vector<Absence> few = fleet.ask(pings(10), kIgnore);
  EXPECT_TRUE(std::ranges::equal(few, std::span(first).first(few.size())))
      << "who else is asked changes nothing";
}

TEST(AbsentFleet, PlaysGivenAbsencesAgain) {
  FakeFleet inner = echo_fleet(20);
  AbsentFleet drawn(inner, 0.4, 3);
  drawn.begin(2);
  const std::vector<Absence> first = drawn.ask(pings(20), kIgnore);
  const std::vector<Absence> second = drawn.ask(pings(20), kIgnore);
  const Absences read = absences_of_round(absences_to_json(drawn.absences()), 2, 20);
  EXPECT_EQ(read, drawn.absences());
  AbsentFleet again(inner, 0.0, 99, read);
  again.begin(1);
  EXPECT_TRUE(again.ask(pings(20), kIgnore).empty()) << "they are of another round";
  again.begin(2);
  EXPECT_EQ(again.ask(pings(20), kIgnore), first);
  EXPECT_EQ(again.ask(pings(20), kIgnore), second);
  EXPECT_EQ(again.absences(), drawn.absences());
}

TEST(AbsentFleet, AddsThoseThatTheFleetItselfMisses) {
  FakeFleet inner = echo_fleet(3);
  inner.away = [](std::int64_t client, const Message&) { return client == 0; };
  AbsentFleet fleet(inner, 0.0, 1, {{{0, 0, 2}, AbsenceReason::late}});
  fleet.begin(0);
  EXPECT_EQ(fleet.ask(pings(3), kIgnore),
            (std::vector<Absence>{{0, AbsenceReason::silent}, {2, AbsenceReason::late}}));
}

TEST(Absences, NameWhatDoesNotFit) {
  const auto text = [](const Json& list) {
    EXPECT_EQ(error_kind([&] { absences_of_round(list, 0, 4); }), ErrorKind::run);
    return error_text([&] { absences_of_round(list, 0, 4); });
  };
  EXPECT_EQ(text(Json::parse(R"([{"ask":0,"client":1,"reason":"tired"}])")),
            "reason \"tired\": expected silent, late, refused or left");
  EXPECT_NE(text(Json::parse(R"([{"ask":0,"client":4,"reason":"late"}])")), "no error");
  EXPECT_NE(text(Json::parse(R"([{"ask":-1,"client":1,"reason":"late"}])")), "no error");
  EXPECT_NE(text(Json::parse(R"([{"client":1,"reason":"late"}])")), "no error");
  EXPECT_NE(text(Json::parse(R"(3)")), "no error");
}

}  // namespace winnow::absence_test

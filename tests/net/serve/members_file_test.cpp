#include "winnow/net/serve/members_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "net/serve/desk_harness.h"
#include "winnow/run/run_directory.h"

namespace winnow::net::members_file_test {

// The file of a desk with the members ann, bob and cy.
struct MembersBench {
  MembersBench() {
    bench.setup.patience = 20;
    bench.reopen();
    file.emplace(path, *bench.desk, bench.clock);
  }

  // Nothing where the file was not written since the last call.
  std::optional<Json> news() {
    if (!std::filesystem::exists(path)) {
      return std::nullopt;
    }
    Json found = Json::parse(read_file(path));
    std::filesystem::remove(path);
    return found;
  }
  std::optional<Json> looked(double after) {
    bench.clock.advance(after);
    file->look();
    return news();
  }
  static std::string statuses(const std::optional<Json>& found) {
    std::string all;
    const Json members = found ? found->at("members") : Json::array();
    for (const Json& member : members) {
      all += (all.empty() ? "" : " ") + member.at("status").get<std::string>();
    }
    return all;
  }

  DeskHarness bench;
  std::filesystem::path path = bench.folder / kMembersFile;
  std::optional<MembersFile> file;
};

TEST(MembersFile, HasEverythingThatIsKnownOfAMember) {
  MembersBench it;
  it.file->write(5);
  Json found = it.news().value();
  EXPECT_EQ(found.at("round"), 5);
  EXPECT_EQ(found.at("members").at(0), Json::parse(R"({"name": "ann", "client": 0,
      "status": "enrolled", "samples": 0, "version": "", "last_seen": null, "rounds": 0,
      "absences": 0, "refusals": 0, "expires": null})"));
  EXPECT_EQ(text_of(it.bench.desk->join(identity("ann"), hello(), 1'900'000'000)), "welcome");
  it.file->write(6);
  found = it.news().value();
  EXPECT_EQ(found.at("round"), 6);
  EXPECT_EQ(found.at("members").at(0), Json::parse(R"({"name": "ann", "client": 0,
      "status": "present", "samples": 40, "version": "0.1.0",
      "last_seen": "2023-11-14T22:30:00.000Z", "rounds": 0, "absences": 0, "refusals": 0,
      "expires": "2030-03-17T17:46:40.000Z"})"));
}

TEST(MembersFile, FollowsWhoComesAndGoesAtMostOnceASecond) {
  MembersBench it;
  EXPECT_FALSE(it.looked(100)) << "nobody knows yet how many rounds are done";
  it.file->write(0);
  EXPECT_EQ(MembersBench::statuses(it.news()), "enrolled enrolled enrolled");
  EXPECT_FALSE(it.looked(100)) << "nothing has changed";
  std::ignore = it.bench.desk->join(identity("ann"), hello());
  EXPECT_FALSE(it.looked(0.5)) << "too soon";
  EXPECT_EQ(MembersBench::statuses(it.looked(0.5)), "present enrolled enrolled");
  std::ignore = it.bench.desk->join(identity("bob"), hello());
  EXPECT_FALSE(it.looked(0.9));
  EXPECT_EQ(MembersBench::statuses(it.looked(0.1)), "present present enrolled");
  v1::Farewell farewell;
  farewell.set_process(process('p'));
  std::ignore = it.bench.desk->leave(identity("ann"), farewell);
  EXPECT_EQ(MembersBench::statuses(it.looked(1)), "left present enrolled");
  EXPECT_FALSE(it.looked(5));
  EXPECT_EQ(MembersBench::statuses(it.looked(20)), "left away enrolled");
  EXPECT_FALSE(it.looked(100));
  std::ignore = it.bench.desk->join(identity("eve"), hello());
  EXPECT_FALSE(it.looked(100)) << "she is no member";
}

TEST(MembersFile, IsRenewedNowAndThenWhileMembersAreHeardOf) {
  MembersBench it;
  it.bench.join_all();
  it.file->write(0);
  EXPECT_TRUE(it.news());
  std::vector<double> renewed;
  for (int second = 1; second <= 30; ++second) {
    std::ignore = it.bench.poll("ann");
    if (it.looked(1)) {
      renewed.push_back(second);
    }
  }
  // Those that say nothing go away meanwhile.
  EXPECT_EQ(renewed, (std::vector<double>{10, 20, 21}));
}

TEST(MembersFile, WhatCannotBeWrittenIsTriedAgain) {
  MembersBench it;
  it.file->write(0);
  std::ignore = it.news();
  std::filesystem::create_directories(it.path / "in the way");
  std::ignore = it.bench.desk->join(identity("ann"), hello());
  it.bench.clock.advance(1);
  EXPECT_NO_THROW(it.file->look());
  EXPECT_ANY_THROW(it.file->write(0));
  std::filesystem::remove_all(it.path);
  EXPECT_EQ(MembersBench::statuses(it.looked(1)), "present enrolled enrolled");
}

}  // namespace winnow::net::members_file_test

#include "winnow/sweep/report_checks.h"

#include <gtest/gtest.h>

#include "testing/support.h"

namespace winnow::report_checks_test {

std::string findings_fate(const char* text) {
  return error_text([&] { check_findings(Json::parse(text)); });
}

std::string labels_fate(const char* rest) {
  const std::string text =
      std::string(R"({"name": "stage 1", "round": 8, "levels": {"0": 0.5}, "splits": {})") + rest;
  return error_text([&] { check_labels(Json::parse(text)); });
}

TEST(ReportChecks, TakesWhatARunWrites) {
  EXPECT_EQ(findings_fate("{}"), "no error");
  EXPECT_EQ(findings_fate(R"({"series": {"lid": [{"by_client": {"0": 1.5}}, {"by_client": {}}]},
      "likeness": {"of": "logits", "known": 2, "clients": [0, 5], "values": [[1, 0.5], [0.5, 1]]}})"),
            "no error");
  EXPECT_EQ(labels_fate(R"(, "confusions": {"3": [[1, 0], [2, 5]]}})"), "no error");
}

TEST(ReportChecks, NamesTheEntryThatIsWrong) {
  EXPECT_EQ(findings_fate(R"({"series": {"lid": 3}})"), "series.lid = 3: expected a list");
  EXPECT_EQ(findings_fate(R"({"series": {"lid": [{"by_client": {"0": null}}]}})"),
            "series.lid[0].by_client.0 = null: expected a finite number");
  EXPECT_EQ(findings_fate(R"({"series": {"lid": [{"by_client": {"01": 1}}]}})"),
            "series.lid[0].by_client.01: expected the number of a client");
  EXPECT_EQ(findings_fate(R"({"likeness": {"of": "logits", "known": 2, "clients": [0, 5],
      "values": [[1, 0.5]]}})"),
            "likeness.values: expected 2 rows");
  EXPECT_EQ(findings_fate(R"({"likeness": {"of": "logits", "known": 2, "clients": [0, 5],
      "values": [[1, 0.5], [1]]}})"),
            "likeness.values[1]: expected 2 numbers");
  EXPECT_EQ(findings_fate(R"({"likeness": {"of": "logits", "known": 1, "clients": [0],
      "values": [[1.5]]}})"),
            "likeness.values[0][0] = 1.5: expected -1 to 1");
  EXPECT_EQ(labels_fate(R"(, "confusions": {"3": [[1, 0], [2]]}})"),
            "confusions.3[1]: expected 2 counts");
  EXPECT_EQ(labels_fate(R"(, "confusions": {"3": [[-1]]}})"),
            "confusions.3[0][0] = -1: expected a whole number from 0 to 9007199254740992");
}

const char* const kMember =
    R"({"name": "ann", "client": 3, "status": "away", "samples": 40, "version": "0.2.0",
        "last_seen": "2026-11-18T06:20:00.123Z", "rounds": 2, "absences": 1, "refusals": 0,
        "expires": null, "more": [1]})";

// What became of a file with that member after something in it was replaced.
std::string member_fate(const std::string& old, const std::string& by) {
  std::string text = R"({"round": 2, "members": [)" + std::string(kMember) + "]}";
  const std::size_t place = text.find(old);
  EXPECT_NE(place, std::string::npos) << old;
  text.replace(place, old.size(), by);
  return error_text([&] { checked_members(Json::parse(text)); });
}

TEST(ReportChecks, OfMembersOnlyWhatIsKnownIsTaken) {
  const Json file{{"round", 2}, {"members", Json::array({Json::parse(kMember)})}, {"extra", 1}};
  EXPECT_EQ(checked_members(file), Json::parse(R"({"round": 2, "members": [{"name": "ann",
      "client": 3, "status": "away", "last_seen": "2026-11-18T06:20:00.123Z", "expires": null,
      "samples": 40, "rounds": 2, "absences": 1, "refusals": 0, "version": "0.2.0"}]})"));
  EXPECT_EQ(checked_members(Json::parse(R"({"round": 0, "members": []})")).at("members").size(),
            0U);
  EXPECT_EQ(member_fate(R"("0.2.0")", R"("")"), "no error") << "of one that has never come";
  for (const char* status : {"enrolled", "present", "working", "left", "revoked", "done"}) {
    EXPECT_EQ(member_fate("away", status), "no error");
  }
}

TEST(ReportChecks, NamesWhatIsWrongWithAMember) {
  EXPECT_EQ(member_fate(R"("round": 2)", R"("round": -1)"),
            "round = -1: expected a whole number from 0 to 9007199254740992");
  EXPECT_EQ(member_fate(R"("name": "ann")", R"("name": 5)"),
            "members[0].name = 5: expected a text");
  EXPECT_EQ(member_fate("ann", ""), "members[0].name: expected 1 to 256 bytes, not 0");
  EXPECT_EQ(member_fate("ann", std::string(257, 'x')),
            "members[0].name: expected 1 to 256 bytes, not 257");
  EXPECT_EQ(member_fate("0.2.0", std::string(300, 'x')),
            "members[0].version: expected 1 to 256 bytes, not 300");
  EXPECT_EQ(member_fate(R"("client": 3)", R"("client": 10000000)"),
            "members[0].client = 10000000: expected a whole number from 0 to 9999999");
  EXPECT_EQ(member_fate("away", "asleep"),
            "members[0].status: expected one of enrolled, present, working, away, left, revoked, "
            "done");
  EXPECT_EQ(member_fate(R"("absences": 1)", R"("absences": 1.5)"),
            "members[0].absences = 1.5: expected a whole number from 0 to 9007199254740992");
  EXPECT_EQ(member_fate(R"("refusals": 0,)", ""), "members[0].refusals is missing");
  EXPECT_EQ(member_fate(R"("expires": null)", R"("expires": 17)"),
            "members[0].expires = 17: expected a text");
  EXPECT_EQ(member_fate(kMember, "[]"), "members[0] = [...]: expected a table");
  EXPECT_EQ(member_fate(kMember, std::string(kMember) + "," + kMember),
            "members[1].client: client 3 is there twice");
  EXPECT_EQ(error_text([] { checked_members(Json::parse(R"({"round": 1, "members": 3})")); }),
            "members = 3: expected a list");
}

TEST(ReportChecks, TimesOfMembersAreTimes) {
  const std::string right = "2026-11-18T06:20:00.123Z";
  for (const char* wrong :
       {"", "2026-11-18", "2026-11-18T06:20:00.123", "2026-11-18T06:20:00.123Zz",
        "2026-13-18T06:20:00.123Z", "2026-00-18T06:20:00.123Z", "2026-11-32T06:20:00.123Z",
        "2026-11-18T24:20:00.123Z", "2026-11-18T06:60:00.123Z", "2026-11-18T06:20:60.123Z",
        "2026-11-18 06:20:00.123Z", "x026-11-18T06:20:00.123Z"}) {
    EXPECT_EQ(member_fate(right, wrong),
              "members[0].last_seen: expected a time such as 2026-11-18T06:20:00.123Z")
        << wrong;
  }
  EXPECT_EQ(member_fate(right, "2000-01-31T23:59:59.000Z"), "no error");
}

TEST(ReportChecks, NormsAreTheLastOfEveryClient) {
  NormCollector norms;
  EXPECT_TRUE(norms.result().is_null());
  norms.add(
      Json::parse(R"({"norms": [{"client": 0, "norms": [1, 2]}, {"client": 1, "norms": [3]}]})"));
  norms.add(Json::parse(R"({"norms": [{"client": 0, "norms": [4, null]}]})"));
  norms.add(Json::parse(R"({"norms": "something else"})"));
  EXPECT_EQ(norms.result().at("by_client"), Json::parse(R"({"0": [4.0], "1": [3.0]})"));
  EXPECT_EQ(
      error_text([&] { norms.add(Json::parse(R"({"norms": [{"client": -1, "norms": []}]})")); }),
      "norms[0].client = -1: expected a whole number from 0 to 9999999");
}

TEST(ReportChecks, TooManyNormsAreThinnedOutEvenly) {
  NormCollector norms;
  for (int client = 0; client < 2; ++client) {
    Json list = Json::array();
    for (int i = 0; i < 80'000; ++i) {
      list.push_back(i);
    }
    norms.add({{"norms", {{{"client", client}, {"norms", list}}}}});
  }
  const Json result = norms.result();
  EXPECT_EQ(result.at("thinned"), true);
  EXPECT_EQ(result.at("by_client").at("0").size(), 50'000U);
  EXPECT_EQ(result.at("by_client").at("0").back(), 79'999.0);
}

}  // namespace winnow::report_checks_test

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

#include "winnow/report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace winnow::page_test {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// What stands between the tags of the page's data.
std::string data_in(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(open) + open.size();
  return page.substr(from, page.find("</script>", from) - from);
}

TEST(Page, HoldsTheDataItIsGiven) {
  const Json data{{"winnow_report", 1}, {"runs", Json::array()}};
  const std::string page = render_page(data);
  EXPECT_THAT(page, StartsWith("<!doctype html>"));
  EXPECT_EQ(Json::parse(data_in(page)), data);
}

TEST(Page, NothingInTheDataCanEndItsScript) {
  const Json data{{"name", "</script><script>alert(1)</script><!--"}};
  const std::string inside = data_in(render_page(data));
  EXPECT_THAT(inside, Not(HasSubstr("<")));
  EXPECT_EQ(Json::parse(inside), data);
}

TEST(Page, TheNameOfThePlaceMayOccurInTheData) {
  const Json data{{"name", "WINNOW-DATA"}};
  EXPECT_EQ(Json::parse(data_in(render_page(data))), data);
}

TEST(Page, WhatIsNotUtf8IsReplaced) {
  const Json data{{"name", "a\xff"}};
  EXPECT_EQ(Json::parse(data_in(render_page(data))).at("name"), "a\xEF\xBF\xBD");
}

TEST(Page, NeedsNothingFromOutside) {
  const std::string page(page_template());
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* way : {"<script src", "<link rel=\"stylesheet\"", "@import", "url(http"}) {
    EXPECT_THAT(page, Not(HasSubstr(way)));
  }
  EXPECT_LT(page.size(), 400'000U);
}

TEST(AuditPage, NeedsNothingFromOutsideAndKeepsDataInsideItsScript) {
  const std::string page(audit_page_template());
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* way :
       {"<script src", "<link rel=\"stylesheet\"", "@import", "url(http", "innerHTML"}) {
    EXPECT_THAT(page, Not(HasSubstr(way)));
  }
  const Json data{{"name", "</script><script>alert(1)"}};
  const Json inside = Json::parse(data_in(render_audit_page(data)));
  EXPECT_EQ(inside.at("name"), data.at("name"));
  EXPECT_TRUE(inside.at("shown").empty());
}

// A browser draws the worst samples before it has read all others.
TEST(AuditPage, HasTheWorstSamplesFirstAndTheOthersBehindItsScript) {
  Json data{{"name", "many"}, {"shown", Json::array()}};
  for (int i = 0; i < 6000; ++i) {
    data["shown"].push_back({{"name", "</script>" + std::to_string(i)}});
  }
  const std::string page = render_audit_page(data);
  const Json inside = Json::parse(data_in(page));
  EXPECT_EQ(inside.at("shown").size(), 600U);
  EXPECT_EQ(inside.at("held"), 6000);
  std::vector<Json> all(inside.at("shown").begin(), inside.at("shown").end());
  const std::string open = "<script type=\"application/json\" class=\"rest\">";
  std::size_t scripts = 0;
  for (std::size_t at = page.find(open); at != std::string::npos; at = page.find(open, at + 1)) {
    EXPECT_GT(at, page.find("drawSamples()"));
    const std::size_t first = at + open.size();
    const Json part = Json::parse(page.substr(first, page.find("</script>", first) - first));
    all.insert(all.end(), part.begin(), part.end());
    ++scripts;
  }
  EXPECT_EQ(scripts, 2U);
  EXPECT_EQ(all, std::vector<Json>(data["shown"].begin(), data["shown"].end()));
}

}  // namespace winnow::page_test

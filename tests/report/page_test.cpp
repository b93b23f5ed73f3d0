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
  EXPECT_EQ(Json::parse(data_in(render_audit_page(data))), data);
}

}  // namespace winnow::page_test

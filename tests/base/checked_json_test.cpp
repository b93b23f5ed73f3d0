#include "winnow/base/checked_json.h"

#include <gtest/gtest.h>

#include "testing/errors.h"

namespace winnow::checked_json_test {

TEST(CheckedJson, ReadsWhatFits) {
  const Json json = Json::parse(R"({"a":{"b":[1,2.5,-3]},"c":true,"d":"text","e":null})");
  const CheckedJson root(json, "");
  const std::vector<CheckedJson> list = root.at("a").at("b").elements();
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].whole(1, 1), 1);
  EXPECT_EQ(list[0].count(), 1);
  EXPECT_EQ(list[1].number(), 2.5);
  EXPECT_EQ(list[2].whole(-3, 0), -3);
  EXPECT_EQ(list[2].number(-3.0, -3.0), -3.0);
  EXPECT_TRUE(root.at("c").truth());
  EXPECT_EQ(root.at("d").text(), "text");
  EXPECT_TRUE(root.at("e").is_null());
  EXPECT_FALSE(root.find("f").has_value());
  const auto members = root.members();
  ASSERT_EQ(members.size(), 4U);
  EXPECT_EQ(members[0].first, "a");
  EXPECT_EQ(members[0].second.at("b").name(), "a.b");
}

TEST(CheckedJson, RefusesTheRestByName) {
  const Json json = Json::parse(
      R"({"list":[1,18446744073709551615],"half":0.5,"text":"a\nb","table":{"x":1},"none":null})");
  const CheckedJson root(json, "");
  EXPECT_EQ(error_text([&] { root.at("missing"); }), "missing is missing");
  EXPECT_EQ(error_text([&] { root.at("table").at("y"); }), "table.y is missing");
  EXPECT_EQ(error_text([&] { root.at("list").at("y"); }), "list = [...]: expected a table");
  EXPECT_EQ(error_text([&] { root.at("half").members(); }), "half = 0.5: expected a table");
  EXPECT_EQ(error_text([&] { root.at("table").elements(); }), "table = {...}: expected a list");
  EXPECT_EQ(error_text([&] { root.at("list").elements()[1].count(); }),
            "list[1] = 18446744073709551615: expected a whole number from 0 to 9007199254740992");
  EXPECT_EQ(error_text([&] { root.at("half").whole(0, 5); }),
            "half = 0.5: expected a whole number from 0 to 5");
  EXPECT_EQ(error_text([&] { root.at("list").elements()[0].whole(2, 5); }),
            "list[0] = 1: expected a whole number from 2 to 5");
  EXPECT_EQ(error_text([&] { root.at("half").number(1.0); }), "half = 0.5: expected at least 1");
  EXPECT_EQ(error_text([&] { root.at("half").number(0.0, 0.25); }),
            "half = 0.5: expected 0 to 0.25");
  EXPECT_EQ(error_text([&] { root.at("none").number(); }), "none = null: expected a finite number");
  EXPECT_EQ(error_text([&] { root.at("text").truth(); }),
            R"(text = "a\nb": expected true or false)");
  EXPECT_EQ(error_text([&] { root.at("none").text(); }), "none = null: expected a text");
}

TEST(CheckedJson, ASeedMayComeFromTomlOrFromJson) {
  const Json signed_seed{{"seed", std::int64_t{7}}};  // as TOML has it
  EXPECT_EQ(CheckedJson(signed_seed, "").at("seed").seed(), 7U);
  const Json largest = Json::parse(R"({"seed":18446744073709551615})");
  EXPECT_EQ(CheckedJson(largest, "").at("seed").seed(), 18446744073709551615U);
  const Json negative{{"seed", -1}};
  EXPECT_EQ(error_text([&] { CheckedJson(negative, "").at("seed").seed(); }),
            "seed = -1: expected a whole number from 0");
}

TEST(CheckedJson, AKeyCannotSpoilAMessage) {
  const Json json{{"a\nb", {{std::string(500, 'x'), 1}}}};
  const std::string text =
      error_text([&] { CheckedJson(json, "").members()[0].second.members()[0].second.text(); });
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_LT(text.size(), 200U);
}

}  // namespace winnow::checked_json_test

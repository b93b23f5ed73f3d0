#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "testing/errors.h"
#include "winnow/base/json.h"

namespace winnow::json_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string fault(const std::string& text) {
  return error_text([&] { parse_json(text, "x.json"); });
}

std::string nested(int levels) {
  const auto count = static_cast<std::size_t>(levels);
  return std::string(count, '[') + std::string(count, ']');
}

TEST(ParseJson, ReadsEveryKindOfValueAndKeepsTheOrder) {
  const std::string text = R"({"z":[1,-2,2.5,true,false,null,"é\n"],"a":{"b":{}},"m":[]})";
  EXPECT_EQ(parse_json(text, "x.json").dump(), text);
  EXPECT_EQ(parse_json("18446744073709551615", "x.json").get<std::uint64_t>(), ~std::uint64_t{0});
  EXPECT_EQ(parse_json_or_null(text).dump(), text);
}

TEST(ParseJson, WhatIsDamagedIsNamed) {
  EXPECT_THAT(fault("{"), StartsWith("x.json is damaged: parse error at line 1, column 2: "));
  EXPECT_THAT(fault(""), StartsWith("x.json is damaged: parse error"));
  EXPECT_THAT(fault("{} {}"), StartsWith("x.json is damaged: parse error"));
  EXPECT_THAT(fault("\"\xff\""), StartsWith("x.json is damaged: parse error"));
  EXPECT_THAT(fault("1e999"), StartsWith("x.json is damaged: number overflow"));
  EXPECT_EQ(fault(R"({"a":{"b":1,"c":2,"b":3}})"), "x.json is damaged: it has the key \"b\" twice");
  EXPECT_TRUE(parse_json_or_null("{").is_null());
  EXPECT_EQ(error_text([] { parse_json("{", "x.json", ErrorKind::data, "fetch it again"); }),
            fault("{") + " | fetch it again");
}

TEST(ParseJson, DepthIsLimited) {
  EXPECT_EQ(fault(nested(kDeepestJson)), "no error");
  const std::string expected = "x.json is damaged: it is nested deeper than 64 levels";
  EXPECT_EQ(fault(nested(kDeepestJson + 1)), expected);
  EXPECT_EQ(fault(nested(1'000'000)), expected);
  EXPECT_EQ(fault(std::string(1'000'000, '[')), expected);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) {
    objects += R"({"a":)";
  }
  EXPECT_EQ(fault(objects), expected);
}

// A search of all keys for every key takes minutes here.
TEST(ParseJson, LargeObjectsTakeLittleTime) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) {
    text += fmt::format(R"("{}":{{}},)", i);
  }
  text += R"("last":1})";
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text, "x.json").size(), 300'001U);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
}

TEST(Utf8, IsWhatJsonCanHold) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("caf\xc3\xa9"));
  EXPECT_FALSE(is_utf8("caf\xe9"));
}

}  // namespace winnow::json_test

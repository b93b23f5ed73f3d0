#include "winnow/experiment/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "testing/support.h"

namespace winnow::toml_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string parse_error(const std::string& text) {
  return error_text([&] { parse_toml(text, "file.toml"); });
}

std::string set_error(Json tree, const std::string& path) {
  return error_text([&] { set_by_path(tree, path, 1); });
}

TEST(Toml, ErrorsNameTheFileTheLineAndTheColumn) {
  EXPECT_THAT(parse_error("a = 1\nb = \n"), StartsWith("file.toml:2:5: "));
  EXPECT_THAT(parse_error("a = 1\na = 2\n"), StartsWith("file.toml:2:"));
  EXPECT_THAT(parse_error("[data\n"), StartsWith("file.toml:1:"));
  EXPECT_THAT(parse_error("a = \"\xff\""), StartsWith("file.toml:1:"));
  EXPECT_EQ(error_kind([] { parse_toml("a", "f"); }), ErrorKind::experiment);
}

TEST(Toml, LettersOutsideQuotesAreAscii) {
  for (const char* text : {"a = 1\nname \u00df = 1\n", "a = 1\nb = \u00a1\n"}) {
    EXPECT_THAT(parse_error(text),
                HasSubstr("file.toml:2: a character outside quotes is not ASCII"));
  }
  EXPECT_EQ(
      parse_toml("\xEF\xBB\xBF\"gr\u00f6\u00dfe\" = \"\u00df\" # \u00df\n", "file.toml").dump(),
      "{\"gr\u00f6\u00dfe\":\"\u00df\"}");
}

TEST(Toml, AQuoteBeginsAKeyOrAValue) {
  for (const char* text :
       {"a = 1\nb = 2x\"\u00df\n", "a = 1\nb = 2 'c'\n", "a = 1\nb\"c\" = 2\n"}) {
    EXPECT_THAT(
        parse_error(text),
        StartsWith("file.toml:2: there is a quote inside a key or a value | put the whole text"));
  }
  EXPECT_EQ(
      parse_toml("['a'.\"b\"]\nc = ['d',\r\n 'e']\nf = {\"g\" = \"h\"}\n", "file.toml").dump(),
      R"({"a":{"b":{"c":["d","e"],"f":{"g":"h"}}}})");
}

TEST(Toml, DatesAreRefused) {
  EXPECT_EQ(parse_error("x = 1\nwhen = 1979-05-27\n"),
            "file.toml:2:8: dates and times are not used in experiments");
  EXPECT_THAT(parse_error("l = [1, 07:32:00]"), StartsWith("file.toml:1:9: dates and times"));
}

TEST(Toml, KeysKeepTheOrderOfTheFile) {
  const Json tree = parse_toml("zebra = 1\napple = 2\n[mango]\nb = 1\na = 2\n[lemon]\n", "f");
  EXPECT_EQ(tree.dump(), R"({"zebra":1,"apple":2,"mango":{"b":1,"a":2},"lemon":{}})");
}

TEST(Toml, ValuesKeepTheirTypes) {
  const Json tree = parse_toml(
      "i = 3\nf = 3.0\ne = 1e3\nb = true\ns = 'x'\nl = [1, 2.5, 'a', [true]]\n"
      "t = { a = 1, b = { c = 2 } }\ninf = inf\n[[list]]\nx = 1\n[[list]]\nx = 2\n",
      "f");
  EXPECT_TRUE(tree["i"].is_number_integer());
  EXPECT_TRUE(tree["f"].is_number_float());
  EXPECT_EQ(tree["e"], 1000.0);
  EXPECT_EQ(tree["l"].dump(), R"([1,2.5,"a",[true]])");
  EXPECT_EQ(tree["t"].dump(), R"({"a":1,"b":{"c":2}})");
  EXPECT_EQ(tree["inf"], std::numeric_limits<double>::infinity());
  EXPECT_EQ(tree["list"].dump(), R"([{"x":1},{"x":2}])");
}

TEST(Toml, WritingShowsPlainValuesFirstAndThenTables) {
  const Json tree =
      Json::parse(R"({"data":{"name":"x"},"seed":1,"noise":[{"rho":0.5},{"rho":1.0}],"empty":[]})");
  EXPECT_EQ(write_toml(tree),
            "seed = 1\nempty = []\n"
            "\n[data]\nname = \"x\"\n"
            "\n[[noise]]\nrho = 0.5\n"
            "\n[[noise]]\nrho = 1.0\n");
}

TEST(Toml, WhatIsWrittenIsReadBackTheSame) {
  Json tree = Json::object();
  tree["whole"] = 3;
  tree["floats"] = {1.0, -0.0, 0.1, 1e30, 1e-7, 1.0 / 3.0, 123456789.0};
  tree["infinite"] = -std::numeric_limits<double>::infinity();
  tree["text"] = "quote \" backslash \\ line\nfeed tab\t bell\x07 delete\x7f grüß 漢字 😀";
  tree["a key"] = true;
  tree["method.name"] = {"fedavg", "fedprox"};
  tree[""] = "empty key";
  tree["nested"] = {{"list", {{{"a", 1}}, {{"b", 2.0}}}}, {"deep", {{"x y", {{"z", 1}}}}}};
  tree["noise"] = Json::parse(R"([{"name":"a","clients":[]},{"name":"b","rows":[[0.9,0.1]]}])");
  tree["table with blank"] = {{"k", {}}};
  tree["table with blank"]["k"] = Json::object();
  const Json again = parse_toml(write_toml(tree), "again");
  // Writing moves plain values to the front; nothing else may change.
  EXPECT_EQ(nlohmann::json(again), nlohmann::json(tree)) << write_toml(tree);
  EXPECT_EQ(write_toml(again), write_toml(parse_toml(write_toml(again), "third")));
  EXPECT_TRUE(again["floats"][0].is_number_float());
  EXPECT_TRUE(again["floats"][6].is_number_float());
  EXPECT_TRUE(again["whole"].is_number_integer());
}

TEST(Toml, AValueOfTheCommandLineIsTomlOrElseText) {
  EXPECT_EQ(parse_toml_value("3").dump(), "3");
  EXPECT_EQ(parse_toml_value("-1_000").dump(), "-1000");
  EXPECT_EQ(parse_toml_value("0.5").dump(), "0.5");
  EXPECT_EQ(parse_toml_value("1e30").dump(), "1e+30");
  EXPECT_EQ(parse_toml_value("true").dump(), "true");
  EXPECT_EQ(parse_toml_value("[1, 2]").dump(), "[1,2]");
  EXPECT_EQ(parse_toml_value("[]").dump(), "[]");
  EXPECT_EQ(parse_toml_value("{ name = 'shards', shards_per_client = 5 }").dump(),
            R"({"name":"shards","shards_per_client":5})");
  EXPECT_EQ(parse_toml_value("\"3\"").dump(), R"("3")");
  EXPECT_EQ(parse_toml_value("fedprox").dump(), R"("fedprox")");
  EXPECT_EQ(parse_toml_value("cuda:0").dump(), R"("cuda:0")");
  EXPECT_EQ(parse_toml_value("data/my set").dump(), R"("data/my set")");
  EXPECT_EQ(parse_toml_value("").dump(), R"("")");
  EXPECT_EQ(parse_toml_value("2024-01-31").dump(), R"("2024-01-31")");
  EXPECT_EQ(parse_toml_value("1.2.3").dump(), R"("1.2.3")");
}

TEST(SetByPath, SetsAndMakesWhatIsOnTheWay) {
  Json tree = Json::parse(R"({"train":{"lr":0.1},"noise":[{"rho":0.5},{}]})");
  set_by_path(tree, "train.lr", 0.2);
  set_by_path(tree, "seed", 7);
  set_by_path(tree, "a.b.c", "x");
  set_by_path(tree, "noise.1.rho", 0.25);
  set_by_path(tree, "noise.0", Json::object());
  EXPECT_EQ(tree.dump(),
            R"({"train":{"lr":0.2},"noise":[{},{"rho":0.25}],"seed":7,"a":{"b":{"c":"x"}}})");
  set_by_path(tree, "noise", Json::array());
  EXPECT_EQ(tree["noise"].dump(), "[]");
}

TEST(SetByPath, ATextStandsForATableWithThatName) {
  Json tree = Json::parse(R"({"federation":{"partition":"shards"}})");
  set_by_path(tree, "federation.partition.name", "iid_split");
  EXPECT_EQ(tree.dump(), R"({"federation":{"partition":"iid_split"}})");
  EXPECT_EQ(set_error(tree, "federation.partition.alpha"),
            "federation.partition.alpha: the way to 'alpha' leads through a value");
}

TEST(SetByPath, RefusesAWayThatLeadsNowhere) {
  const Json tree = Json::parse(R"({"seed":1,"noise":[{"rho":0.5}]})");
  EXPECT_EQ(set_error(tree, "seed.x"), "seed.x: the way to 'x' leads through a value");
  EXPECT_EQ(set_error(tree, "noise.1.rho"), "noise.1.rho: '1' is not a place in a list of 1");
  EXPECT_THAT(set_error(tree, "noise.-1.rho"), HasSubstr("'-1' is not a place in a list of 1"));
  EXPECT_THAT(set_error(tree, "noise.rho"), HasSubstr("'rho' is not a place in a list of 1"));
  EXPECT_THAT(set_error(tree, "noise.0x.rho"), HasSubstr("'0x' is not a place in a list"));
  EXPECT_EQ(set_error(tree, "train..lr"), "train..lr: a key is empty");
  EXPECT_EQ(set_error(tree, "train."), "train.: a key is empty");
  EXPECT_EQ(error_kind([] {
              Json tree{{"a", 1}};
              set_by_path(tree, "a.b", 1);
            }),
            ErrorKind::usage);
}

}  // namespace winnow::toml_test

#include "winnow/report/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/errors.h"

namespace winnow::arena_test {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RunResult result(const std::string& row, const std::string& column, double percent,
                 std::uint64_t seed = 1) {
  return {row,
          column,
          seed,
          {{"last10", percent / 100.0},
           {"bytes_up", 600'000.0},
           {"bytes_down", 400'000.0},
           {"wall_seconds", 2.5}}};
}

RunResult unfinished(const std::string& row, const std::string& column) {
  return {row, column, 1, nullptr};
}

RunResult bound(const std::string& row, const std::string& column, double percent) {
  RunResult run = result(row, column, percent);
  run.summary["uses_ground_truth"] = true;
  return run;
}

// The example of docs/arena.md.
std::vector<RunResult> example() {
  return {result("fedavg", "clean", 80.0),  result("fedavg", "noisy", 60.0),
          result("fedavg", "attack", 70.0), result("steady", "clean", 82.0),
          result("steady", "noisy", 60.0),  unfinished("steady", "attack"),
          result("bold", "clean", 82.0),    result("bold", "noisy", 50.0),
          result("bold", "attack", 71.0),   bound("oracle", "clean", 90.0),
          bound("oracle", "noisy", 90.0),   bound("oracle", "attack", 90.0)};
}

const ArenaRow& row_of(const Arena& arena, const std::string& name) {
  const auto found = std::ranges::find(arena.rows, name, &ArenaRow::name);
  EXPECT_NE(found, arena.rows.end()) << name;
  return *found;
}

std::vector<std::string> names(const Arena& arena) {
  std::vector<std::string> all;
  std::ranges::transform(arena.rows, std::back_inserter(all), &ArenaRow::name);
  return all;
}

std::vector<double> ranks(const Arena& arena, const std::string& row) {
  std::vector<double> all;
  for (const ArenaCell& cell : row_of(arena, row).cells) {
    all.push_back(cell.rank.value_or(0.0));
  }
  return all;
}

TEST(Arena, TiedMethodsShareTheMeanOfTheirPlaces) {
  const Arena arena = make_arena({result("fedavg", "s", 70.0), result("a", "s", 80.0),
                                  result("b", "s", 79.5), result("c", "s", 79.5)},
                                 {}, {});
  EXPECT_THAT(ranks(arena, "a"), ElementsAre(1.0));
  EXPECT_THAT(ranks(arena, "b"), ElementsAre(2.5));
  EXPECT_THAT(ranks(arena, "c"), ElementsAre(2.5));
  EXPECT_THAT(ranks(arena, "fedavg"), ElementsAre(4.0));
}

TEST(Arena, TiesAreDecidedByWhatIsPrinted) {
  const Arena arena = make_arena(
      {result("fedavg", "s", 79.501), result("a", "s", 79.499), result("b", "s", 79.494)}, {}, {});
  EXPECT_THAT(ranks(arena, "fedavg"), ElementsAre(1.5));
  EXPECT_THAT(ranks(arena, "a"), ElementsAre(1.5));
  EXPECT_THAT(ranks(arena, "b"), ElementsAre(3.0));
}

TEST(Arena, MeanRanksAreOverTheSettingsInWhichAMethodRan) {
  const Arena arena = make_arena(example(), {}, {});
  EXPECT_THAT(names(arena), ElementsAre("steady", "bold", "fedavg", "oracle"));
  EXPECT_THAT(ranks(arena, "fedavg"), ElementsAre(3.0, 1.5, 2.0));
  EXPECT_THAT(ranks(arena, "steady"), ElementsAre(1.5, 1.5, 0.0));
  EXPECT_THAT(ranks(arena, "bold"), ElementsAre(1.5, 3.0, 1.0));
  EXPECT_DOUBLE_EQ(*row_of(arena, "fedavg").rank, 6.5 / 3.0);
  EXPECT_DOUBLE_EQ(*row_of(arena, "steady").rank, 1.5);
  EXPECT_DOUBLE_EQ(*row_of(arena, "bold").rank, 5.5 / 3.0);
  EXPECT_EQ(row_of(arena, "steady").settings, 2U);
  EXPECT_EQ(arena.cells, 12U);
  EXPECT_EQ(arena.missing, 1U);
}

TEST(Arena, EveryOneAtTheTopOfASettingWins) {
  const Arena arena = make_arena(example(), {}, {});
  EXPECT_EQ(row_of(arena, "fedavg").wins, 1U);
  EXPECT_EQ(row_of(arena, "steady").wins, 2U);
  EXPECT_EQ(row_of(arena, "bold").wins, 2U);
}

TEST(Arena, TheWorstIsTheLeastDifferenceAndNamesItsSetting) {
  const Arena arena = make_arena(example(), {}, {});
  EXPECT_THAT(row_of(arena, "steady").worst.value(), DoubleNear(0.0, 1e-9));
  EXPECT_EQ(row_of(arena, "steady").worst_setting, "noisy");
  EXPECT_THAT(row_of(arena, "bold").worst.value(), DoubleNear(-10.0, 1e-9));
  EXPECT_EQ(row_of(arena, "bold").worst_setting, "noisy");
  EXPECT_FALSE(row_of(arena, "fedavg").worst) << "it is what others are compared with";
}

TEST(Arena, BoundsAreListedApartAndInNobodysWay) {
  const Arena arena = make_arena(example(), {}, {});
  const ArenaRow& oracle = row_of(arena, "oracle");
  EXPECT_TRUE(oracle.uses_truth);
  EXPECT_FALSE(oracle.rank);
  EXPECT_EQ(oracle.wins, 0U);
  EXPECT_THAT(oracle.worst.value(), DoubleNear(10.0, 1e-9));
  EXPECT_EQ(oracle.worst_setting, "clean");
}

TEST(Arena, OfEqualRanksTheOneWithMoreWinsComesFirst) {
  // Ranks 2 and 2 against 3 and 1.
  const Arena arena =
      make_arena({result("fedavg", "x", 10.0), result("fedavg", "y", 10.0),
                  result("even", "x", 80.0), result("even", "y", 80.0), result("odd", "x", 90.0),
                  result("odd", "y", 5.0), result("other", "x", 20.0), result("other", "y", 90.0)},
                 {}, {});
  EXPECT_THAT(names(arena), ElementsAre("other", "even", "odd", "fedavg"));
  EXPECT_DOUBLE_EQ(*row_of(arena, "even").rank, 2.0);
  EXPECT_DOUBLE_EQ(*row_of(arena, "other").rank, 2.0);
}

TEST(Arena, DifferencesAreOverTheSeedsThatBothHave) {
  const Arena arena = make_arena({result("fedavg", "s", 50.0, 1), result("fedavg", "s", 60.0, 2),
                                  result("a", "s", 52.0, 1), result("a", "s", 90.0, 3)},
                                 {}, {});
  const ArenaCell& cell = row_of(arena, "a").cells.at(0);
  EXPECT_EQ(cell.runs, 2U);
  EXPECT_DOUBLE_EQ(cell.mean, 71.0);
  EXPECT_THAT(cell.difference.value(), DoubleNear(2.0, 1e-9));
  EXPECT_EQ(row_of(arena, "a").runs, 2U);
}

TEST(Arena, WhereTheReferenceHasNotRunThereAreRanksButNoDifferences) {
  const Arena arena = make_arena({unfinished("fedavg", "s"), result("fedavg", "t", 50.0),
                                  result("a", "s", 60.0), unfinished("a", "t")},
                                 {}, {});
  EXPECT_THAT(ranks(arena, "a"), ElementsAre(1.0, 0.0));
  EXPECT_FALSE(row_of(arena, "a").cells.at(0).difference);
  EXPECT_FALSE(row_of(arena, "a").worst);
  EXPECT_EQ(arena.missing, 2U);
}

TEST(Arena, MethodsWithoutAnyResultAreNamedAndTheirCellsCounted) {
  const Arena arena = make_arena(
      {result("fedavg", "s", 50.0), unfinished("krum", "s"), unfinished("median", "s")}, {}, {});
  EXPECT_THAT(names(arena), ElementsAre("fedavg"));
  EXPECT_THAT(arena.not_begun, ElementsAre("krum", "median"));
  EXPECT_THAT(render_arena(arena, {}),
              HasSubstr("2 of 3 cells are missing.\nWithout any result yet: krum, median.\n"));
}

TEST(Arena, WithoutTheReferenceThereIsNone) {
  EXPECT_EQ(error_text([] { make_arena({result("a", "s", 50.0)}, {}, {}); }),
            "there is no row 'fedavg', with which an arena compares | arena.reference of the sweep "
            "file names another");
}

TEST(Arena, TextHasALineForEachMethodAndDashesForWhatIsMissing) {
  const RevealedByRow reveals{{"steady", {}},
                              {"bold", {{"loss", "its mean loss"}, {"tau", "its steps"}}}};
  EXPECT_EQ(
      render_arena(make_arena(example(), {}, reveals), {}),
      "method                      mean rank  wins  worst against fedavg  where  settings  runs  "
      "traffic  wall time (s)  reveals\n"
      "--------------------------  ---------  ----  --------------------  -----  --------  ----  "
      "-------  -------------  ------------\n"
      "steady                           1.50     2                 +0.00  noisy         2     2   "
      "1.0 MB            2.5  nothing more\n"
      "bold                             1.83     2                -10.00  noisy         3     3   "
      "1.0 MB            2.5  loss, tau\n"
      "fedavg                           2.17     1                     -  -             3     3   "
      "1.0 MB            2.5  -\n"
      "oracle (uses ground truth)          -     -                +10.00  clean         3     3   "
      "1.0 MB            2.5  -\n"
      "Ranks are by test accuracy (last ten rounds), 1 is the best, over the settings in which a "
      "method has run; worst is in points against fedavg.\n"
      "1 of 12 cells are missing.\n");
}

TEST(Arena, BySettingHasTheDifferences) {
  const Arena arena = make_arena(example(), {}, {});
  EXPECT_EQ(render_arena(arena, {.format = "markdown", .by_setting = true}),
            "| method | clean | noisy | attack |\n"
            "| --- | ---: | ---: | ---: |\n"
            "| steady | +2.00 | +0.00 | - |\n"
            "| bold | +2.00 | -10.00 | +1.00 |\n"
            "| fedavg (%) | 80.00 | 60.00 | 70.00 |\n"
            "| oracle (uses ground truth) | +10.00 | +30.00 | +20.00 |\n\n"
            "Points of test accuracy (last ten rounds) above or below fedavg, whose row has the "
            "accuracy. 1 of 12 cells are missing.\n");
  EXPECT_THAT(render_arena(arena, {.format = "csv", .by_setting = true}),
              HasSubstr("method,setting,runs,mean,difference,rank\n"
                        "steady,clean,1,82,2,1.5\nsteady,noisy,1,60,0,1.5\nsteady,attack,0,,,\n"));
}

TEST(Arena, CsvIsALineForEachMethod) {
  const RevealedByRow reveals{{"bold", {{"loss", "its mean loss"}, {"tau", "its steps"}}}};
  EXPECT_EQ(
      render_arena(make_arena(example(), {}, reveals), {.format = "csv"}),
      "method,uses_ground_truth,rank,wins,settings,runs,worst,worst_setting,bytes,seconds,reveals\n"
      "steady,,1.5,2,2,2,0,noisy,1000000,2.5,\n"
      "bold,,1.833333,2,3,3,-10,noisy,1000000,2.5,loss tau\n"
      "fedavg,,2.166667,1,3,3,,,1000000,2.5,\n"
      "oracle,true,,,3,3,10,clean,1000000,2.5,\n");
}

TEST(Arena, JsonHasEverything) {
  const RevealedByRow reveals{{"steady", {{"loss", "its mean loss"}}}};
  const Json json =
      Json::parse(render_arena(make_arena(example(), {}, reveals), {.format = "json"}));
  EXPECT_EQ(json.at("settings"), Json({"clean", "noisy", "attack"}));
  EXPECT_EQ(json.at("missing"), 1);
  const Json& steady = json.at("methods").at(0);
  EXPECT_EQ(steady.at("name"), "steady");
  EXPECT_EQ(steady.at("rank"), 1.5);
  EXPECT_EQ(steady.at("worst"), Json({{"points", 0.0}, {"setting", "noisy"}}));
  EXPECT_EQ(steady.at("reveals"), Json::parse(R"([{"field": "loss", "tells": "its mean loss"}])"));
  EXPECT_EQ(steady.at("cells").at(0),
            Json({{"runs", 1}, {"mean", 82.0}, {"rank", 1.5}, {"difference", 2.0}}));
  EXPECT_TRUE(steady.at("cells").at(2).is_null());
  EXPECT_TRUE(json.at("methods").at(1).at("reveals").is_null()) << "it is not known";
}

TEST(Arena, AnUnknownFormatIsRefused) {
  EXPECT_EQ(error_text([] {
              render_arena(make_arena({result("fedavg", "s", 50.0)}, {}, {}), {.format = "cvs"});
            }),
            "unknown format 'cvs' | did you mean 'csv'?");
}

TEST(Arena, ThePictureHasEveryCellAndStandsAlone) {
  std::vector<RunResult> runs = example();
  runs.push_back(result("<b>", "clean", 81.0));
  const std::string svg = arena_svg(arena_json(make_arena(runs, {}, {})));
  for (const char* words : {">-10.0<", ">+2.0<", ">+30.0<", ">-<", ">attack<", ">steady<",
                            "&lt;b&gt;", "below (orange) fedavg"}) {
    EXPECT_THAT(svg, HasSubstr(words));
  }
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  EXPECT_THAT(svg, Not(HasSubstr("href")));
  // The largest difference is the deepest.
  EXPECT_THAT(svg, HasSubstr("fill=\"#2a6fb0\" fill-opacity=\"0.90\""));
  EXPECT_THAT(svg, HasSubstr("fill=\"#c4571b\" fill-opacity=\"0.52\""));  // 0.9 sqrt(10 / 30)
}

TEST(Arena, APictureOfSomethingElseIsRefused) {
  Json json = arena_json(make_arena(example(), {}, {}));
  json["methods"][0]["cells"][0]["difference"] = "much";
  EXPECT_THAT(error_text([&] { arena_svg(json); }),
              HasSubstr("arena.methods[0].cells[0].difference = \"much\": expected"));
}

}  // namespace winnow::arena_test

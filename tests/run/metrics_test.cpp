#include "winnow/run/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "testing/errors.h"
#include "winnow/base/random.h"
#include "winnow/base/text.h"

namespace winnow::metrics_test {

// Rounds with these accuracies and ten participations each; nothing where it was not evaluated.
History history_of(const std::vector<std::optional<double>>& accuracies) {
  History history;
  for (const std::optional<double>& accuracy : accuracies) {
    RoundRecord record;
    record.round = static_cast<std::int64_t>(history.size()) + 1;
    record.accuracy = accuracy;
    record.traffic.participations = 10 * record.round;
    record.hash = "h";
    history.push_back(record);
  }
  return history;
}

TEST(Metrics, BestLastAndMeanOfTheLastTenRounds) {
  History history = history_of({0.9, 0.1, 0.2});
  EXPECT_DOUBLE_EQ(accuracies(history).best, 0.9);
  EXPECT_DOUBLE_EQ(accuracies(history).last, 0.2);
  EXPECT_DOUBLE_EQ(accuracies(history).last10.value(), 0.4);
  history = history_of({0.9, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.3});
  EXPECT_DOUBLE_EQ(accuracies(history).best, 0.9);
  EXPECT_NEAR(accuracies(history).last10.value(), 0.16, 1e-12);
}

TEST(Metrics, Top5IsThatOfTheBestRoundForIt) {
  History history = history_of({0.9, 0.1, std::nullopt, 0.2});
  EXPECT_EQ(accuracies(history).top5, std::nullopt) << "five classes or fewer";
  history[0].top5 = 0.91;
  history[1].top5 = 0.95;
  history[3].top5 = 0.4;
  EXPECT_EQ(accuracies(history).top5, 0.95);
  EXPECT_DOUBLE_EQ(accuracies(history).best, 0.9);
}

TEST(Metrics, RoundsWithoutEvaluationDoNotCount) {
  const History history = history_of({std::nullopt, 0.4, std::nullopt, 0.2, std::nullopt});
  EXPECT_DOUBLE_EQ(accuracies(history).best, 0.4);
  EXPECT_DOUBLE_EQ(accuracies(history).last, 0.2);
}

TEST(Metrics, Last10IsOverRoundsNotOverEvaluations) {
  // Every third round, then the last ten: nothing before those ten counts.
  History history = history_of(std::vector<std::optional<double>>(30, 0.5));
  for (std::size_t i = 0; i < 20; ++i) {
    history[i].accuracy = i % 3 == 2 ? std::optional(0.9) : std::nullopt;
  }
  EXPECT_DOUBLE_EQ(accuracies(history).last10.value(), 0.5);
  history[25].accuracy.reset();
  EXPECT_EQ(accuracies(history).last10, std::nullopt) << "one of the ten is not known";
  EXPECT_DOUBLE_EQ(accuracies(history).last, 0.5);
}

TEST(Metrics, WithoutAnyEvaluationBestIsZeroAndThereIsNoLast10) {
  EXPECT_EQ(accuracies({}).best, 0.0);
  EXPECT_EQ(accuracies({}).last10, std::nullopt);
  EXPECT_EQ(accuracies(history_of({std::nullopt})).last10, std::nullopt);
}

// spec: partitions M, the checks
TEST(Metrics, BestIsAtLeastLast10WhichIsAtLeastTheMinimum) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Stream stream(seed, "metrics-test");
    std::vector<std::optional<double>> values;
    for (std::uint64_t i = 0; i <= seed; ++i) {
      values.emplace_back(stream.uniform());
    }
    const Accuracies measured = accuracies(history_of(values));
    EXPECT_GE(measured.best, measured.last10.value()) << "seed " << seed;
    EXPECT_GE(measured.last10.value(), **std::ranges::min_element(values)) << "seed " << seed;
  }
}

// spec: partitions M, targeted cost
TEST(Metrics, TargetedCostIsTheParticipationsUntilTheTargetFirstHolds) {
  const History history = history_of({0.60, 0.64, 0.66, 0.65});
  EXPECT_EQ(targeted_cost(history, 0.65), 30);
  EXPECT_EQ(targeted_cost(history, 0.60), 10);
  EXPECT_EQ(targeted_cost(history, 0.67), std::nullopt);
  EXPECT_EQ(targeted_cost({}, 0.0), std::nullopt);
  EXPECT_EQ(targeted_cost(history_of({std::nullopt, 0.7}), 0.5), 20);
}

TEST(Metrics, CsvLeavesWhatWasNotMeasuredEmpty) {
  History history = history_of({std::nullopt, 0.25});
  history[1].loss = std::numeric_limits<double>::infinity();
  history[1].traffic = {20, 300, 400, 7, 1.5, {900, 600}};
  history[1].seconds = 2.0;
  history[1].label_precision = 0.5;
  history[1].label_recall = 0.75;
  history[1].top5 = 0.875;
  history[1].macro_precision = 0.25;
  history[1].macro_recall = 0.375;
  history[1].macro_f1 = 0.3125;
  history[0].train_loss = 1.5;
  history[1].train_loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(metrics_csv(history),
            "round,accuracy,loss,participations,bytes_up,bytes_down,client_steps,seconds,"
            "label_precision,label_recall,top5,train_loss,forward_passes,backward_passes,"
            "macro_precision,macro_recall,macro_f1\n"
            "1,,,10,0,0,0,0.000,,,,1.5,0,0,,,\n"
            "2,0.25,,20,400,300,7,2.000,0.5,0.75,0.875,,900,600,0.25,0.375,0.3125\n");
  EXPECT_EQ(split(metrics_csv({}), '\n').size(), 2U);
}

// What pandas.read_csv needs to find columns of numbers by itself.
TEST(Metrics, CsvIsAPlainTableOfNumbers) {
  History history = history_of({std::nullopt, 1.0, 1e-9, 1.0 / 3.0, 0.0});
  history[1].loss = std::numeric_limits<double>::quiet_NaN();
  history[2].loss = 1e22;
  history[2].seconds = 123456.7891;
  history[3].traffic.bytes_up = std::numeric_limits<std::int64_t>::max();
  history[4].label_precision = 0.5;
  const std::string csv = metrics_csv(history);
  EXPECT_EQ(csv.find_first_of("\"'# \t\r;"), std::string::npos);
  std::vector<std::string> lines = split(csv, '\n');
  EXPECT_EQ(lines.back(), "") << "the last line is ended, too";
  lines.pop_back();
  const std::vector<std::string> names = split(lines.at(0), ',');
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(lines.at(0) + "\n", metrics_csv({})) << "columns do not depend on what was measured";
  for (std::size_t line = 1; line < lines.size(); ++line) {
    const std::vector<std::string> cells = split(lines[line], ',');
    EXPECT_EQ(cells.size(), names.size());
    EXPECT_EQ(cells.at(0), std::to_string(line));
    for (const std::string& cell : cells) {
      double number = 0.0;
      const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
      EXPECT_TRUE(cell.empty() || (error == std::errc() && *end == '\0' && std::isfinite(number)))
          << cell;
    }
  }
  // Every digit of a measurement is there.
  EXPECT_EQ(std::stod(split(lines.at(4), ',').at(1)), 1.0 / 3.0);
}

TEST(Metrics, ARecordSurvivesJson) {
  RoundRecord record{3, 1.0 / 3.0, 2.5, {4, 5, 6, 7, 0.1}, 9.75, "abc"};
  EXPECT_EQ(RoundRecord::from_json(Json::parse(record.to_json().dump())).to_json(),
            record.to_json());
  EXPECT_EQ(RoundRecord::from_json(record.to_json()).accuracy, 1.0 / 3.0);
  EXPECT_FALSE(record.to_json().contains("label_precision"));
  EXPECT_FALSE(record.to_json().contains("top5"));
  EXPECT_EQ(RoundRecord::from_json(record.to_json()).train_loss, std::nullopt);
  record.train_loss = 0.6;
  EXPECT_EQ(RoundRecord::from_json(record.to_json()).train_loss, 0.6);
  record.top5 = 0.7;
  EXPECT_EQ(RoundRecord::from_json(record.to_json()).top5, 0.7);
  EXPECT_FALSE(record.to_json().contains("macro_f1"));
  record.macro_precision = 0.1;
  record.macro_recall = 0.2;
  record.macro_f1 = 0.3;
  EXPECT_EQ(RoundRecord::from_json(record.to_json()).macro_precision, 0.1);
  EXPECT_EQ(RoundRecord::from_json(record.to_json()).macro_recall, 0.2);
  EXPECT_EQ(RoundRecord::from_json(record.to_json()).macro_f1, 0.3);
  record.label_precision = 0.9;
  record.label_recall = 0.8;
  EXPECT_EQ(RoundRecord::from_json(record.to_json()).label_precision, 0.9);
  EXPECT_EQ(RoundRecord::from_json(record.to_json()).label_recall, 0.8);
}

TEST(Metrics, ALossThatIsNotFiniteIsNullInJsonAndAbsentAfterwards) {
  for (const double loss :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    RoundRecord record;
    record.accuracy = 0.1;
    record.loss = loss;
    record.train_loss = loss;
    const Json json = Json::parse(record.to_json().dump());
    EXPECT_TRUE(json.at("loss").is_null());
    EXPECT_TRUE(json.at("train_loss").is_null());
    EXPECT_EQ(RoundRecord::from_json(json).loss, std::nullopt);
    EXPECT_EQ(RoundRecord::from_json(json).accuracy, 0.1);
    EXPECT_EQ(metrics_csv({RoundRecord::from_json(json)}), metrics_csv({record}));
  }
}

TEST(Metrics, ARecordWithoutItsFieldsIsRefused) {
  EXPECT_EQ(error_text([] { RoundRecord::from_json(Json::parse(R"({"round":1})")); }),
            "participations is missing");
  EXPECT_EQ(error_text([] { RoundRecord::from_json(Json::parse("[]")); }),
            "it = [...]: expected a table");
}

TEST(Metrics, TheMeanOfTheLastValuesSkipsRoundsWithoutOne) {
  History history = history_of(std::vector<std::optional<double>>(20, 0.5));
  EXPECT_EQ(mean_of_last_values(history, &RoundRecord::label_precision), std::nullopt);
  history[3].label_precision = 0.25;
  history[19].label_precision = 0.75;
  EXPECT_EQ(mean_of_last_values(history, &RoundRecord::label_precision), 0.5);
  for (std::size_t i = 5; i < 15; ++i) {
    history[i].label_precision = 0.75;
  }
  EXPECT_EQ(mean_of_last_values(history, &RoundRecord::label_precision), 0.75);
}

}  // namespace winnow::metrics_test

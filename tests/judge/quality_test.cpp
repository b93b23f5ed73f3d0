#include "winnow/judge/quality.h"

#include <gtest/gtest.h>

namespace winnow::quality_test {

using Set = std::set<std::int64_t>;

TEST(Quality, IdentificationOfTheSpecExample) {
  // spec: label-noise C.7 #10; partitions M: pruned {1,4,9,2}, truth {1,4,5,7}
  const Detection found = detect({1, 4, 9, 2}, {1, 4, 5, 7}, 10);
  EXPECT_EQ(found.precision, 0.5);
  EXPECT_EQ(found.recall, 0.5);
  EXPECT_EQ(found.flagged, 4);
  EXPECT_DOUBLE_EQ(found.accuracy, 0.6);
}

TEST(Quality, AShareOfNothingIsNoNumber) {
  EXPECT_EQ(detect({}, {}, 5).precision, std::nullopt);
  EXPECT_EQ(detect({}, {}, 5).recall, std::nullopt);
  EXPECT_DOUBLE_EQ(detect({}, {}, 5).accuracy, 1.0);
  EXPECT_EQ(detect({}, Set{3}, 5).precision, std::nullopt);
  EXPECT_EQ(detect({}, Set{3}, 5).recall, 0.0);
  EXPECT_EQ(detect(Set{3}, {}, 5).precision, 0.0);
  EXPECT_EQ(detect(Set{3}, {}, 5).recall, std::nullopt);
  EXPECT_EQ(
      to_json(detect(Set{3}, {}, 5)),
      Json::parse(
          R"({"flagged": 1, "flag_precision": 0.0, "flag_recall": null, "flag_accuracy": 0.8})"));
  EXPECT_EQ(to_json(detect({}, Set{3}, 5)).at("flag_precision"), Json(nullptr));
}

TEST(Quality, NoiseLevelErrorIsTheMeanDistance) {
  const std::vector<double> estimated{0.0, 0.3, 0.5};
  const std::vector<double> real{0.1, 0.3, 0.2};
  EXPECT_NEAR(noise_level_error(estimated, real), 0.4 / 3.0, 1e-12);
  EXPECT_DOUBLE_EQ(noise_level_error({}, {}), 0.0);
}

TEST(Quality, RelabellingCountsEachKind) {
  const std::vector<std::int64_t> truth{0, 1, 2, 3, 4, 5};
  const std::vector<std::int64_t> before{0, 0, 0, 3, 4, 0};
  const std::vector<std::int64_t> after{0, 1, 1, 0, 4, 0};
  const Relabelling counts = relabelling(before, after, truth);
  EXPECT_EQ(counts.wrong_to_right, 1);
  EXPECT_EQ(counts.wrong_to_wrong, 1);
  EXPECT_EQ(counts.right_to_wrong, 1);
}

TEST(Quality, ConfusionIsGivenAgainstTrue) {
  const std::vector<std::int64_t> truth{0, 1, 1};
  const std::vector<std::int64_t> given{1, 1, 0};
  const auto counts = confusion(given, truth, 2);
  EXPECT_EQ(counts, (std::vector<std::vector<std::int64_t>>{{0, 1}, {1, 1}}));
  EXPECT_NEAR(wrong_share(given, truth), 2.0 / 3.0, 1e-12);
}

TEST(Quality, LabelPrecisionAndRecallOfTheSpecExample) {
  // spec: label-noise B.8 #7: 10 samples, 7 right, 6 selected of which 5 right.
  const std::vector<bool> right{true, true, true, true, true, true, true, false, false, false};
  const std::vector<bool> chosen{true, true, true, true, true, false, false, true, false, false};
  const Selection measured = selection(chosen, right);
  EXPECT_NEAR(measured.label_precision, 0.83333333, 1e-8);
  EXPECT_NEAR(measured.label_recall, 0.71428571, 1e-8);
  const Selection all = selection(std::vector<bool>(10, true), right);
  EXPECT_DOUBLE_EQ(all.label_recall, 1.0);
  EXPECT_DOUBLE_EQ(all.label_precision, 0.7);
  const Selection none = selection(std::vector<bool>(10, false), right);
  EXPECT_DOUBLE_EQ(none.label_precision, 0.0);
  EXPECT_DOUBLE_EQ(none.label_recall, 0.0);
}

}  // namespace winnow::quality_test

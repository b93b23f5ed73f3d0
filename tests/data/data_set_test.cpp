#include "winnow/data/data_set.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_testing.h"

namespace winnow::data_set_test {

using ::testing::HasSubstr;

DataSet small() {
  DataSet set;
  set.name = "small";
  set.train = {at::zeros({3, 1, 4, 4}, at::kByte), {0, 1, 1}};
  set.test = {at::zeros({2, 1, 4, 4}, at::kByte), {1, 0}};
  set.classes = 2;
  set.class_names = {"a", "b"};
  set.normalisation = {{0.5}, {0.5}};
  return set;
}

TEST(Validate, AcceptsAWholeSet) {
  DataSet set = small();
  EXPECT_NO_THROW(validate(set));
  set.given = {1, 1, 1};
  EXPECT_NO_THROW(validate(set));
}

TEST(Validate, NamesEveryContradiction) {
  const auto broken = [](const std::function<void(DataSet&)>& breakage) {
    DataSet set = small();
    breakage(set);
    return error_text([&] { validate(set); });
  };
  EXPECT_THAT(broken([](DataSet& s) { s.train.labels.pop_back(); }),
              HasSubstr("data set 'small': 3 train images but 2 labels"));
  EXPECT_THAT(broken([](DataSet& s) { s.test.labels[1] = 2; }),
              HasSubstr("test label 2 of sample 1 is outside 0..1"));
  EXPECT_THAT(broken([](DataSet& s) { s.train.labels[0] = -1; }),
              HasSubstr("train label -1 of sample 0 is outside 0..1"));
  EXPECT_THAT(broken([](DataSet& s) { s.test = {}; }), HasSubstr("the test part is empty"));
  EXPECT_THAT(broken([](DataSet& s) { s.train.images = s.train.images.to(at::kFloat); }),
              HasSubstr("the train images must be contiguous bytes"));
  EXPECT_THAT(broken([](DataSet& s) {
                s.train.images = s.train.images.expand({3, 3, 4, 4});
              }),
              HasSubstr("the train images must be contiguous bytes"));
  EXPECT_THAT(broken([](DataSet& s) {
                s.test.images = at::zeros({2, 1, 4, 5}, at::kByte);
              }),
              HasSubstr("train images are 1x4x4 but test images are 1x4x5"));
  EXPECT_THAT(broken([](DataSet& s) { s.classes = 10'001; }),
              HasSubstr("10001 classes, expected 1 to 10000"));
  EXPECT_THAT(broken([](DataSet& s) { s.class_names.pop_back(); }),
              HasSubstr("2 classes but 1 class names"));
  EXPECT_THAT(broken([](DataSet& s) {
                s.normalisation.mean = {0.5, 0.5};
              }),
              HasSubstr("1 channels but 2 means and 1 standard deviations"));
  EXPECT_THAT(broken([](DataSet& s) { s.normalisation.std = {0.0}; }),
              HasSubstr("standard deviation 0 must be above 0"));
  EXPECT_THAT(broken([](DataSet& s) { s.given = {0}; }),
              HasSubstr("1 given labels but 3 train samples"));
  EXPECT_THAT(broken([](DataSet& s) {
                s.given = {0, 5, 0};
              }),
              HasSubstr("given label 5 of sample 1 is outside 0..1"));
}

}  // namespace winnow::data_set_test

#include "winnow/train/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/support.h"

namespace winnow::options_test {

TEST(TrainOptions, ReadTheTrainTable) {
  TrainOptions options;
  declare(options).read(Json{{"epochs", 3}, {"lr", 0.03}, {"mixup", 1}}, "train");
  EXPECT_EQ(options.epochs, 3);
  EXPECT_EQ(options.lr, 0.03);
  EXPECT_EQ(options.mixup, 1.0);
  EXPECT_EQ(options.batch_size, 10);
}

TEST(TrainOptions, RefuseImpossibleValues) {
  const auto text = [](const char* key, const Json& value) {
    return error_text([&] {
      TrainOptions options;
      declare(options).read(Json{{key, value}}, "train");
    });
  };
  const std::vector<std::pair<const char*, Json>> wrong{
      {"epochs", 0},      {"batch_size", 0}, {"lr", -0.1},
      {"momentum", 1.5},  {"mixup", -1.0},   {"label_smoothing", 2},
      {"temperature", 0}, {"eval_batch", 0}, {"weight_decay", -1e-4}};
  for (const auto& [key, value] : wrong) {
    EXPECT_THAT(text(key, value), testing::HasSubstr(std::string("train.") + key));
  }
  EXPECT_THAT(text("learning_rate", 0.1), testing::HasSubstr("train.learning_rate"));
  EXPECT_THAT(text("momentums", 0.1), testing::HasSubstr("did you mean 'momentum'?"));
}

}  // namespace winnow::options_test

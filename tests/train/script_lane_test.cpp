// Networks from TorchScript files in lanes.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "testing/script_files.h"
#include "testing/support.h"
#include "winnow/model/script_net.h"
#include "winnow/train/lane.h"

namespace winnow::script_lane_test {

namespace fs = std::filesystem;

class ScriptLane : public ::testing::Test {
 protected:
  ScriptLane() : samples_(data_.train.labels.size()) {
    std::iota(samples_.begin(), samples_.end(), std::int64_t{0});
    fs::create_directories(folder_);
  }
  ~ScriptLane() override { fs::remove_all(folder_); }

  Lane lane(const std::string& text, const State& state) const {
    const NetInfo info = ScriptModel(write_script(folder_ / "net.pt", text, state)).info();
    return {make_net(info, data_), feed_, false};
  }
  LocalSet local(std::size_t first = 0, std::size_t count = 25) const {
    return {std::span(samples_).subspan(first, count),
            std::span(data_.train.labels).subspan(first, count)};
  }
  static TrainKey key(std::int64_t client) { return {.seed = 5, .round = 2, .client = client}; }

  DataSet data_ = tiny_data();
  Feed feed_{data_.train.images, data_.normalisation, 0, at::kCPU};
  std::vector<std::int64_t> samples_;
  TrainOptions options_{.epochs = 2, .batch_size = 8, .lr = 0.05};
  fs::path folder_ =
      fs::temp_directory_path() / ("winnow_script_lane_" + std::to_string(::getpid()));
};

TEST_F(ScriptLane, TrainsAsTheSameNetworkWrittenHere) {
  const State start = NormNet(shape_of(data_)).weights().initial(1);
  Lane here(make_net<NormNet>(data_), feed_, false);
  Lane script = lane(kNormText, with_head(start));
  const TrainOutcome expected = here.trainer().train(start, local(), options_, {}, key(1));
  const TrainOutcome found =
      script.trainer().train(with_head(start), local(), options_, {}, key(1));
  EXPECT_TRUE(at::allclose(found.state.flat, expected.state.flat, 1e-5, 1e-6));
  EXPECT_NEAR(found.mean_loss, expected.mean_loss, 1e-6);
  EXPECT_EQ(values_of(found.state.counters()), std::vector<float>{8.0F});
  EXPECT_GT(distance(found.state, with_head(start)), 0.01);
}

TEST_F(ScriptLane, TrainsTheHeadAlone) {
  const State start = with_head(NormNet(shape_of(data_)).weights().initial(1));
  Lane script = lane(kNormText, start);
  const State trained =
      script.trainer().train(start, local(), options_, {.head_only = true}, key(1)).state;
  const auto moved = [&](const char* name) {
    const Slot& slot = *start.layout->find(name);
    return !at::equal(trained.view(slot), start.view(slot));
  };
  EXPECT_FALSE(moved("conv.weight"));
  EXPECT_TRUE(moved("head.weight"));
  EXPECT_TRUE(moved("head.bias"));
}

TEST_F(ScriptLane, WithoutFeaturesAModuleIsTrainedAndScored) {
  const State start = linear_state(shape_of(data_));
  Lane script = lane(kLinearText, start);
  const TrainOutcome outcome = script.trainer().train(start, local(), options_, {}, key(1));
  script.scorer().load(start);
  const double before = script.scorer().score(feed_, local(), 10).mean_loss();
  script.scorer().load(outcome.state);
  EXPECT_LT(script.scorer().score(feed_, local(), 10).mean_loss(), before);
  EXPECT_THAT(error_text([&] {
                script.scorer().each_batch(feed_, local().samples, 10, {}, false,
                                           [](auto&, auto&) {});
              }),
              ::testing::HasSubstr("this method needs features"));
}

TEST_F(ScriptLane, AClientsDropoutDoesNotDependOnWhoWasServedBefore) {
  const State start = linear_state(shape_of(data_));
  Lane one = lane(kDropoutText, start);
  Lane two = lane(kDropoutText, start);
  one.trainer().train(start, local(0), options_, {}, key(1));
  const State second = one.trainer().train(start, local(25), options_, {}, key(2)).state;
  const State alone = two.trainer().train(start, local(25), options_, {}, key(2)).state;
  EXPECT_TRUE(at::equal(second.flat, alone.flat));
  EXPECT_FALSE(at::equal(two.trainer().train(start, local(25), options_, {}, key(3)).state.flat,
                         alone.flat));
}

}  // namespace winnow::script_lane_test

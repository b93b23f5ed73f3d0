#include "winnow/run/aggregate.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/small_run.h"
#include "winnow/model/safetensors.h"

namespace winnow::model_files_test {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

const LayoutPtr kLayout =
    std::make_shared<const Layout>(std::vector<Slot>{{"weight", {3}, SlotKind::parameter, 0, 0}});

// Files of models whose values are all the same.
class Files {
 public:
  explicit Files(const std::vector<double>& values) {
    for (const double value : values) {
      const std::filesystem::path path = folder_ / (std::to_string(names_.size()) + ".safetensors");
      save_state(path, State{kLayout, at::full({kLayout->total()}, value, at::kFloat)});
      names_.push_back(path.string());
    }
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  TestFolder folder_;
  std::vector<std::string> names_;
};

TEST(ModelFiles, AreCombinedAsTheServerOfAMethodWould) {
  const Files files({1.0, 2.0, 9.0});
  const ModelFiles read = read_model_files(files.names(), {1, 1, 2}, "");
  EXPECT_FLOAT_EQ(read.start.flat[0].item<float>(), 5.25F) << "their weighted mean";
  const Registry registry = builtin_registry();
  const Combined mean = combine(make_aggregator("fedavg", {}, registry), read);
  EXPECT_FLOAT_EQ(mean.model.flat[0].item<float>(), 5.25F);
  const Combined median = combine(make_aggregator("median", Json::object(), registry), read);
  EXPECT_FLOAT_EQ(median.model.flat[0].item<float>(), 2.0F);
  EXPECT_EQ(median.facts.at("nearest").at("client"), 1);
  EXPECT_EQ(median.facts.at("farthest").at("client"), 2);
}

TEST(ModelFiles, OneTableServesSeveralMethods) {
  const Json table{{"trim", 0.25}, {"mu", 0.5}};
  const Registry registry = builtin_registry();
  EXPECT_EQ(make_aggregator("trimmed_mean", table, registry).parameters.at("trim"), 0.25);
  EXPECT_FALSE(make_aggregator("fedavg", table, registry).parameters.contains("trim"));
}

TEST(ModelFiles, AMethodThatNeedsMoreIsRefused) {
  const Registry registry = builtin_registry();
  EXPECT_THAT(error_text([&] { make_aggregator("fedcorr", Json::object(), registry); }),
              HasSubstr("--method fedcorr: it needs more than model files"));
  EXPECT_THAT(aggregating_names(registry), Contains("median"));
  EXPECT_THAT(aggregating_names(registry), Not(Contains("fedcorr")));
  EXPECT_THAT(aggregating_names(registry), Not(Contains("oracle")));
}

TEST(ModelFiles, AMethodOfOnesOwnCombinesThem) {
  const Registry registry = methods();  // with "remembering", whose messages say more
  EXPECT_EQ(error_kind([&] { make_aggregator("nothing", Json::object(), registry); }),
            ErrorKind::experiment);
  Registry more = builtin_registry();
  MethodInfo mine = fedavg_info();
  mine.name = "mine";
  more.methods.add(mine);
  EXPECT_THAT(aggregating_names(more), Contains("mine"));
}

}  // namespace winnow::model_files_test

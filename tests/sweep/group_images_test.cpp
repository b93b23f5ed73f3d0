#include "winnow/sweep/group_images.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/small_run.h"
#include "winnow/run/runner.h"
#include "winnow/sweep/report_data.h"

namespace winnow::group_images_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The figure 5 of the FedNS paper.
TEST(GroupImages, AreDrawnFromBothGroupsAndTellTheTruth) {
  const Experiment experiment = small();
  const World world = make_world(experiment, builtin_registry());
  const std::vector<std::int64_t> noisy(world.ledger.noisy_clients().begin(),
                                        world.ledger.noisy_clients().end());
  const Json images = group_images(world, noisy, 1);
  ASSERT_EQ(images.at("flagged").size(), 9U);
  ASSERT_EQ(images.at("others").size(), 9U);
  int wrong = 0;
  for (const Json& image : images.at("flagged")) {
    EXPECT_TRUE(world.ledger.is_noisy(image.at("client").get<std::int64_t>()));
    EXPECT_THAT(image.at("png").get<std::string>(), StartsWith("iVBORw0KGgo")) << "a PNG";
    wrong += image.at("noisy").get<bool>() ? 1 : 0;
  }
  EXPECT_GT(wrong, 0);
  for (const Json& image : images.at("others")) {
    EXPECT_EQ(image.at("noisy"), false);
  }
  EXPECT_EQ(images, group_images(world, noisy, 1)) << "the same every time";
  EXPECT_NE(images, group_images(world, noisy, 2));
}

TEST(GroupImages, LargeOnesAreMadeSmaller) {
  const World small_world = make_world(small(), builtin_registry());
  World large = small_world;
  large.data.train.images = at::zeros({160, 3, 100, 200}, at::kByte);
  const std::string png = group_images(large, {0}, 1).at("others").at(0).at("png");
  // Width and height are bytes 16 to 23 of the file: 64 x 32.
  EXPECT_EQ(png.substr(20, 12), "UgAAAEAAAAAg");
}

TEST(GroupImages, WithoutTruthNothingIsCalledNoisy) {
  World world = make_world(small(), builtin_registry());
  world.truth_known = false;
  EXPECT_TRUE(group_images(world, {0}, 1).at("flagged").at(0).at("noisy").is_null());
}

TEST(GroupImages, AreAddedToRunsThatFlagClients) {
  const TestFolder folder;
  const Registry registry = builtin_registry();
  RunObserver silent;
  for (const char* name : {"fedavg", "fedns"}) {
    start_run(small({std::string("method.name=") + name}), registry, on_cpu(1), folder / name,
              nullptr, silent);
  }
  ReportReader reader({(folder / "fedavg").string(), (folder / "fedns").string()});
  Json report = reader.read();
  report["runs"][1]["findings"]["flagged"] = Json({2});
  add_group_images(report, registry);
  EXPECT_FALSE(report.at("runs").at(0).contains("images"));
  EXPECT_EQ(report.at("runs").at(1).at("images").at("flagged").at(0).at("client"), 2);
  report["runs"][1]["findings"]["flagged"] = Json({4});
  EXPECT_THAT(error_text([&] { add_group_images(report, registry); }),
              HasSubstr("flagged[0] = 4: expected a whole number from 0 to 3"));
}

}  // namespace winnow::group_images_test

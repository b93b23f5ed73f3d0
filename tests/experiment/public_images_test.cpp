#include "winnow/experiment/public_images.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "run/small_run.h"
#include "winnow/base/png.h"
#include "winnow/data/image_files.h"
#include "winnow/experiment/world.h"

namespace winnow::public_images_test {

std::vector<std::int64_t> all_of(const DataSet& data) {
  std::vector<std::int64_t> left(data.train.labels.size());
  std::iota(left.begin(), left.end(), std::int64_t{0});
  return left;
}

Experiment parse(const std::vector<std::string>& sets) {
  return parse_experiment(small_tree(sets), builtin_registry());
}

TEST(PublicImages, NoneLeavesEverythingToTheClients) {
  const DataSet data = tiny_data();
  std::vector<std::int64_t> left = all_of(data);
  EXPECT_FALSE(take_public_images({}, 1, builtin_data_sets(), data, left).defined());
  EXPECT_EQ(left, all_of(data));
}

TEST(PublicImages, ASplitIsTakenOutOfWhatIsLeft) {
  const DataSet data = tiny_data(60, 10);
  std::vector<std::int64_t> left = all_of(data);
  left.erase(left.begin(), left.begin() + 20);  // the server's own
  const std::vector<std::int64_t> before = left;
  const at::Tensor images =
      take_public_images({.source = "split", .size = 15}, 1, builtin_data_sets(), data, left);
  ASSERT_EQ(images.size(0), 15);
  EXPECT_EQ(left.size(), 25U);
  std::vector<std::int64_t> taken;
  std::ranges::set_difference(before, left, std::back_inserter(taken));
  ASSERT_EQ(taken.size(), 15U);
  for (std::int64_t i = 0; i < 15; ++i) {
    EXPECT_TRUE(images[i].equal(data.train.images[taken[static_cast<std::size_t>(i)]]));
  }
  std::vector<std::int64_t> again = before;
  take_public_images({.source = "split", .size = 15}, 1, builtin_data_sets(), data, again);
  EXPECT_EQ(again, left);
  again = before;
  take_public_images({.source = "split", .size = 15}, 2, builtin_data_sets(), data, again);
  EXPECT_NE(again, left);
}

TEST(PublicImages, AnotherDataSetIsBroughtToTheShapeOfThisOne) {
  const DataSet data = tiny_data();  // 8 x 8; the synthetic set has 28 x 28
  std::vector<std::int64_t> left = all_of(data);
  const at::Tensor images = take_public_images({.source = "data", .name = "synthetic", .size = 12},
                                               1, builtin_data_sets(), data, left);
  EXPECT_EQ(images.sizes(), (std::vector<std::int64_t>{12, 1, 8, 8}));
  EXPECT_EQ(images.scalar_type(), at::kByte);
  EXPECT_EQ(left, all_of(data));
}

TEST(PublicImages, AFolderNeedsNoParticularClasses) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const TestFolder folder;
  for (const auto& [name, value] : {std::pair{"cats", 10}, {"dogs", 30}}) {
    std::filesystem::create_directories(folder / name);
    const std::vector<std::uint8_t> pixels(16 * 16 * 3, static_cast<std::uint8_t>(value));
    write_file_whole(folder.path() / name / "a.png", encode_png(pixels, 16, 16, 3));
  }
  const DataSet data = tiny_data();
  std::vector<std::int64_t> left = all_of(data);
  const at::Tensor images =
      take_public_images({.source = "folder", .path = folder.path().string(), .size = 2}, 1,
                         builtin_data_sets(), data, left);
  EXPECT_EQ(images.sizes(), (std::vector<std::int64_t>{2, 1, 8, 8}));
  EXPECT_EQ(images[0].max().item<int>(), 10);
  EXPECT_EQ(images[1].min().item<int>(), 30);
}

TEST(PublicImages, MoreThanThereAreIsRefused) {
  const DataSet data = tiny_data(60, 10);
  std::vector<std::int64_t> left = all_of(data);
  EXPECT_EQ(error_text([&] {
              take_public_images({.source = "split", .size = 60}, 1, builtin_data_sets(), data,
                                 left);
            }),
            "public.size = 60: only 60 images are available | leave some to the clients");
  EXPECT_EQ(error_text([&] {
              take_public_images({.source = "data", .name = "synthetic", .size = 20'000}, 1,
                                 builtin_data_sets(), data, left);
            }),
            "public.size = 20000: only 10000 images are available");
}

TEST(PublicImages, ChannelsThatCannotBeConvertedNameTheDataSet) {
  DataSet data = tiny_data();
  data.train.images = data.train.images.repeat({1, 2, 1, 1});
  std::vector<std::int64_t> left = all_of(data);
  EXPECT_EQ(
      error_text([&] {
        take_public_images({.source = "data", .name = "synthetic", .size = 3}, 1,
                           builtin_data_sets(), data, left);
      }),
      "[public] for tiny: images with 1 channels cannot be combined with images with 2 | only grey "
      "(1) and colour (3) images can be combined");
}

TEST(PublicImages, OptionsThatContradictAreRefused) {
  EXPECT_EQ(error_text([] { parse({"public.source=\"data\""}); }),
            "public.source = \"data\" needs public.name | name a data set of `winnow list "
            "datasets`");
  EXPECT_EQ(error_text([] { parse({"public.source=\"folder\""}); }),
            "public.source = \"folder\" needs public.path | name a folder that has folders of "
            "images");
  EXPECT_EQ(error_text([] { parse({"public.name=\"cifar100\""}); }),
            "public.name is only used with source = \"data\", not \"none\"");
  EXPECT_EQ(error_text([] {
              parse({"public.source=\"split\"", "public.path=\"x\""});
            }),
            "public.path is only used with source = \"folder\" or \"data\", not \"split\"");
  EXPECT_NE(error_text([] {
              parse({"public.source=\"data\"", "public.name=\"cifar10O\""});
            }).find("unknown data set"),
            std::string::npos);
}

TEST(PublicImages, AreTakenOutOfTheClientsDataAfterTheValidationSet) {
  const std::vector<std::string> validation{"validation.source=\"split\"", "validation.share=0.25"};
  std::vector<std::string> both = validation;
  both.insert(both.end(), {"public.source=\"split\"", "public.size=40"});
  const World world = make_world(parse(both), builtin_registry());
  std::size_t held = 0;
  for (const ClientData& client : world.clients) {
    held += client.samples.size();
  }
  EXPECT_EQ(held, 80U);
  EXPECT_EQ(world.public_images.size(0), 40);
  const World without = make_world(parse(validation), builtin_registry());
  EXPECT_TRUE(world.data.validation.images.equal(without.data.validation.images));
  EXPECT_FALSE(without.public_images.defined());
}

TEST(PublicImages, AreInTheResolvedExperiment) {
  const Experiment experiment = parse({"public.source=\"split\"", "public.size=40"});
  EXPECT_EQ(experiment.resolved().at("public").at("size"), 40);
  EXPECT_NE(experiment.hash(), parse({}).hash());
  EXPECT_EQ(parse_experiment(experiment.resolved(), builtin_registry()).hash(), experiment.hash());
}

}  // namespace winnow::public_images_test

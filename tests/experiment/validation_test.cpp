#include "winnow/experiment/validation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "run/small_run.h"
#include "winnow/base/png.h"
#include "winnow/data/image_files.h"
#include "winnow/engine/prototype.h"
#include "winnow/experiment/world.h"

namespace winnow::validation_test {

DataSet hundred() {
  return tiny_data(100, 10);
}

std::map<std::int64_t, std::int64_t> count(const Labels& labels) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::int64_t label : labels) {
    ++counts[label];
  }
  return counts;
}

TEST(Validation, NoneLeavesEverythingToTheClients) {
  DataSet data = hundred();
  EXPECT_EQ(make_validation({}, 1, builtin_distortions(), data).size(), 100U);
  EXPECT_EQ(data.validation.size(), 0);
}

// spec: label-noise C.4 #6: 9:1 of the training images, drawn from the seed
TEST(Validation, ASplitTakesItsShareOutWithTrueLabels) {
  DataSet data = hundred();
  const std::vector<std::int64_t> left =
      make_validation({.source = "split", .share = 0.1}, 1, builtin_distortions(), data);
  EXPECT_EQ(left.size(), 90U);
  EXPECT_TRUE(std::ranges::is_sorted(left));
  ASSERT_EQ(data.validation.size(), 10);
  std::set<std::int64_t> held;
  for (std::int64_t i = 0; i < 100; ++i) {
    held.insert(i);
  }
  for (const std::int64_t sample : left) {
    held.erase(sample);
  }
  std::int64_t place = 0;
  for (const std::int64_t sample : held) {
    EXPECT_TRUE(data.validation.images[place].equal(data.train.images[sample]));
    EXPECT_EQ(data.validation.labels[static_cast<std::size_t>(place)],
              data.train.labels[static_cast<std::size_t>(sample)]);
    ++place;
  }
  DataSet again = hundred();
  EXPECT_EQ(make_validation({.source = "split", .share = 0.1}, 1, builtin_distortions(), again),
            left);
  EXPECT_NE(make_validation({.source = "split", .share = 0.1}, 2, builtin_distortions(), again),
            left);
}

TEST(Validation, ABalancedSplitTakesTheSameShareOfEveryClass) {
  DataSet data = hundred();
  make_validation({.source = "split", .share = 0.2, .balanced = true}, 1, builtin_distortions(),
                  data);
  for (const auto& [label, total] : count(data.train.labels)) {
    EXPECT_EQ(count(data.validation.labels)[label], total / 5) << "class " << label;
  }
}

TEST(Validation, ADistortionDegradesTheHeldOutImagesOnly) {
  DataSet plain = hundred();
  DataSet blurred = hundred();
  make_validation({.source = "split"}, 1, builtin_distortions(), plain);
  make_validation({.source = "split", .distortion = "gaussian_blur", .severity = 5}, 1,
                  builtin_distortions(), blurred);
  EXPECT_FALSE(plain.validation.images.equal(blurred.validation.images));
  EXPECT_EQ(plain.validation.labels, blurred.validation.labels);
  EXPECT_TRUE(plain.train.images.equal(blurred.train.images));
}

TEST(Validation, AShareThatLeavesNothingIsRefused) {
  DataSet data = hundred();
  EXPECT_EQ(error_text([&] {
              make_validation({.source = "split", .share = 0.001}, 1, builtin_distortions(), data);
            }),
            "validation.share = 0.001: 0 of 100 samples would be held back");
  EXPECT_EQ(error_text([&] {
              make_validation({.source = "split", .share = 1.0}, 1, builtin_distortions(), data);
            }),
            "validation.share = 1: 100 of 100 samples would be held back");
}

// One grey image per class folder, every pixel the given value.
void write_folder(const std::filesystem::path& root,
                  const std::vector<std::pair<std::string, std::uint8_t>>& classes) {
  for (const auto& [name, value] : classes) {
    std::filesystem::create_directories(root / name);
    const std::vector<std::uint8_t> pixels(8 * 8 * 3, value);
    write_file_whole(root / name / "a.png", encode_png(pixels, 8, 8, 3));
  }
}

TEST(Validation, AFolderIsMatchedByClassName) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const TestFolder folder;
  DataSet data = hundred();
  data.class_names = {"ankle", "bag", "coat"};
  write_folder(folder.path(), {{"coat", 30}, {"ankle", 10}});
  EXPECT_EQ(make_validation({.source = "folder", .path = folder.path().string()}, 1,
                            builtin_distortions(), data)
                .size(),
            100U);
  ASSERT_EQ(data.validation.size(), 2);
  EXPECT_EQ(data.validation.images.sizes(), (std::vector<std::int64_t>{2, 1, 8, 8}));
  for (std::int64_t i = 0; i < 2; ++i) {
    const std::int64_t label = data.validation.labels[static_cast<std::size_t>(i)];
    EXPECT_EQ(data.validation.images[i].max().item<int>(), label == 2 ? 30 : 10);
    EXPECT_TRUE(label == 0 || label == 2);
  }
}

TEST(Validation, AFolderWithOtherNamesNeedsOneFolderPerClass) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const TestFolder folder;
  DataSet data = hundred();
  write_folder(folder / "three", {{"x", 1}, {"y", 2}, {"z", 3}});
  make_validation({.source = "folder", .path = (folder / "three").string()}, 1,
                  builtin_distortions(), data);
  EXPECT_EQ(count(data.validation.labels).size(), 3U);
  write_folder(folder / "two", {{"x", 1}, {"y", 2}});
  const std::string path = (folder / "two").string();
  EXPECT_EQ(error_text([&] {
              make_validation({.source = "folder", .path = path}, 1, builtin_distortions(), data);
            }),
            "validation.path = " + path +
                ": 2 class folders, but tiny has 3 classes | name the folders like the classes, or "
                "have one per class in their order");
}

TEST(Validation, OptionsThatContradictAreRefused) {
  EXPECT_EQ(error_text([] { small({"validation.source=\"folder\""}); }),
            "validation.source = \"folder\" needs validation.path | name a folder that has one "
            "folder of images per class");
  EXPECT_EQ(error_text([] { small({"validation.path=\"x\""}); }),
            "validation.path is only used with source = \"folder\", not \"none\"");
  EXPECT_NE(
      error_text([] { small({"validation.distortion=\"gausian_blur\""}); }).find("gaussian_blur"),
      std::string::npos);
}

TEST(Validation, IsTakenOutOfTheClientsData) {
  const World world = make_world(small({"validation.source=\"split\"", "validation.share=0.25"}),
                                 builtin_registry());
  std::size_t held = 0;
  for (const ClientData& client : world.clients) {
    held += client.samples.size();
  }
  EXPECT_EQ(held, 120U);
  EXPECT_EQ(world.data.validation.size(), 40);
  EXPECT_EQ(make_world(small(), builtin_registry()).clients.front().samples.size(), 40U);
}

TEST(Validation, AMethodMeasuresManyModelsAtOnce) {
  const Experiment experiment = small({"validation.source=\"split\"", "validation.share=0.25"});
  Session one(experiment, methods(), on_cpu(1), nullptr);
  Session five(experiment, methods(), on_cpu(5), nullptr);
  const Prototype network(builtin_registry().networks.find(experiment.model.name), one.world().data,
                          experiment.model.resize, at::kCPU);
  std::vector<State> models;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    models.push_back(network.initial_state(seed));
  }
  Examiner& wider = five.examiner();
  const std::vector<Score> scores = one.examiner().validate(models);
  ASSERT_EQ(scores.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(scores[i].count, 40);
    EXPECT_EQ(scores[i].correct, wider.validate({models[i]}).front().correct);
    EXPECT_EQ(scores[i].loss_sum, wider.validate({models[i]}).front().loss_sum);
  }
}

}  // namespace winnow::validation_test

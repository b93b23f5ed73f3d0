#include "winnow/noise/image/distortion.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "noise/image/distortion_pictures.h"
#include "testing/errors.h"
#include "winnow/base/error.h"

namespace winnow::distortion_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_pictures::flat;
using testing_pictures::largest_change;
using testing_pictures::mean_change;
using testing_pictures::natural;
using testing_pictures::Picture;

Picture distorted(const Picture& picture, std::string_view name, int severity,
                  std::uint64_t seed = 1) {
  Picture copy = picture;
  Stream stream(seed, "test");
  find_distortion(name, builtin_distortions()).apply(copy.view(), severity, stream);
  return copy;
}

at::Tensor natural_batch(std::int64_t count, std::int64_t channels, std::int64_t side) {
  at::Tensor images = at::empty({count, channels, side, side}, at::kByte);
  for (std::int64_t i = 0; i < count; ++i) {
    const Picture picture = natural(channels, side, static_cast<std::uint64_t>(i));
    std::copy(picture.bytes.begin(), picture.bytes.end(),
              images.data_ptr<std::uint8_t>() + i * channels * side * side);
  }
  return images;
}

std::vector<DistortionJob> every_distortion_in_turn(std::int64_t count) {
  std::vector<DistortionJob> jobs;
  for (std::int64_t i = 0; i < count; ++i) {
    const Distortions& all = builtin_distortions();
    jobs.push_back({i, &*(all.begin() + i % std::ssize(all)), static_cast<int>(i % 5) + 1});
  }
  return jobs;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const DistortionInfo& info : builtin_distortions()) {
    all.push_back(info.name);
  }
  return all;
}

TEST(Distortions, AreListedByNameWithASummary) {
  EXPECT_THAT(names(), ElementsAre("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise",
                                   "gaussian_blur", "defocus_blur", "glass_blur", "motion_blur",
                                   "zoom_blur", "snow", "fog", "brightness", "contrast", "saturate",
                                   "elastic", "pixelate", "jpeg", "spatter", "black",
                                   "gaussian_patch", "generative_surrogate"));
  for (const DistortionInfo& info : builtin_distortions()) {
    EXPECT_FALSE(info.summary.empty()) << info.name;
    EXPECT_EQ(&find_distortion(info.name, builtin_distortions()), &info);
  }
}

TEST(Distortions, OnlyPatchesIgnoreSeverity) {
  for (const DistortionInfo& info : builtin_distortions()) {
    const bool patch = info.name == "black" || info.name == "gaussian_patch" ||
                       info.name == "generative_surrogate";
    EXPECT_EQ(info.uses_severity, !patch) << info.name;
    if (patch) {
      EXPECT_EQ(distorted(natural(3, 32), info.name, 1).bytes,
                distorted(natural(3, 32), info.name, 5).bytes);
    }
  }
}

TEST(Distortions, UnknownNameGetsASuggestion) {
  const std::string text =
      error_text([] { find_distortion("gausian_blur", builtin_distortions()); });
  EXPECT_THAT(text, HasSubstr("distortion 'gausian_blur' is not known"));
  EXPECT_THAT(text, HasSubstr("did you mean 'gaussian_blur'?"));
}

TEST(Distortions, FrostIsRefusedBecauseItNeedsPhotographs) {
  const std::string text = error_text([] { find_distortion("frost", builtin_distortions()); });
  EXPECT_THAT(text, HasSubstr("'frost' is not offered: it needs photographs"));
  EXPECT_THAT(text, HasSubstr("'snow'"));
}

TEST(Severity, WordsAndNumbers) {
  EXPECT_EQ(parse_severity("low"), 1);
  EXPECT_EQ(parse_severity("medium"), 3);
  EXPECT_EQ(parse_severity("high"), 5);
  for (int severity = 1; severity <= 5; ++severity) {
    EXPECT_EQ(parse_severity(std::int64_t{severity}), severity);
    EXPECT_EQ(parse_severity(std::to_string(severity)), severity);
  }
}

TEST(Severity, AnythingElseIsRefusedByText) {
  for (const char* text : {"6", "0", "-1", "extreme", "", "3x", "99999999999999999999"}) {
    EXPECT_THAT(error_text([text] { parse_severity(text); }),
                HasSubstr(fmt::format("severity '{}' is not known | use low (1), medium (3), high "
                                      "(5) or a number from 1 to 5",
                                      text)));
  }
  EXPECT_THAT(error_text([] { parse_severity(std::int64_t{6}); }),
              HasSubstr("severity '6' is not known"));
}

TEST(DistortionSets, HoldTheBenchmarksNames) {
  EXPECT_THAT(distortion_set("main"), ElementsAre("contrast", "gaussian_blur", "defocus_blur"));
  EXPECT_THAT(distortion_set("patch"),
              ElementsAre("black", "gaussian_patch", "generative_surrogate"));
  EXPECT_THAT(distortion_set("mixed"),
              ElementsAre("contrast", "gaussian_blur", "defocus_blur", "black", "gaussian_patch",
                          "generative_surrogate"));
  const std::vector<std::string>& all = distortion_set("all");
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 17U);
  for (const std::string& name : all) {
    EXPECT_NO_THROW(find_distortion(name, builtin_distortions()));
  }
  EXPECT_EQ(std::count(all.begin(), all.end(), "frost"), 0);

  // What the paper lists: all but zoom blur, which only its scripts have, and the patches.
  std::set<std::string> listed(all.begin(), all.end());
  listed.erase("zoom_blur");
  const std::vector<std::string>& patches = distortion_set("patch");
  listed.insert(patches.begin(), patches.end());
  const std::vector<std::string>& everything = distortion_set("everything");
  EXPECT_EQ(everything.size(), 19U);
  EXPECT_EQ(std::set<std::string>(everything.begin(), everything.end()), listed);
}

TEST(DistortionSets, UnknownSetGetsASuggestion) {
  EXPECT_THAT(error_text([] { distortion_set("mian"); }),
              HasSubstr("distortion set 'mian' is not known | did you mean 'main'?"));
}

// spec: input-noise C1
TEST(Distortions, ConstantImageStaysUnderBlursContrastAndPixelate) {
  for (const char* name : {"gaussian_blur", "defocus_blur", "glass_blur", "motion_blur",
                           "zoom_blur", "contrast", "pixelate"}) {
    for (int severity = 1; severity <= 5; ++severity) {
      for (const int level : {0, 1, 77, 128, 201, 255}) {
        const Picture before = flat(3, 32, static_cast<std::uint8_t>(level));
        EXPECT_EQ(largest_change(before, distorted(before, name, severity)), 0)
            << name << " severity " << severity << " level " << level;
      }
    }
  }
}

TEST(Distortions, HighSeverityReallyChangesEveryShape) {
  struct Shape {
    std::int64_t channels;
    std::int64_t side;
  };
  for (const Shape shape : {Shape{1, 28}, Shape{3, 32}, Shape{3, 64}}) {
    const Picture before = natural(shape.channels, shape.side);
    for (const DistortionInfo& info : builtin_distortions()) {
      EXPECT_GT(mean_change(before, distorted(before, info.name, 5)), 1.0)
          << info.name << " " << shape.channels << "x" << shape.side;
    }
  }
}

TEST(Distortions, OddAndTinyShapesWork) {
  for (const std::int64_t height : {1, 2, 3, 5, 17}) {
    for (const std::int64_t width : {1, 2, 9, 30}) {
      for (const std::int64_t channels : {1, 3}) {
        for (const DistortionInfo& info : builtin_distortions()) {
          for (int severity = 1; severity <= 5; ++severity) {
            Picture picture(channels, height, width, 120);
            Stream stream(7, "tiny");
            EXPECT_NO_THROW(info.apply(picture.view(), severity, stream)) << info.name;
          }
        }
      }
    }
  }
}

TEST(Distortions, ChangeGrowsWithSeverity) {
  for (const char* name :
       {"gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "gaussian_blur",
        "defocus_blur", "zoom_blur", "fog", "brightness", "contrast", "jpeg"}) {
    double last = 0.0;
    for (int severity = 1; severity <= 5; ++severity) {
      double change = 0.0;
      for (std::uint64_t i = 0; i < 20; ++i) {
        const Picture before = natural(3, 32, i);
        change += mean_change(before, distorted(before, name, severity, i)) / 20.0;
      }
      EXPECT_GT(change, last) << name << " severity " << severity;
      last = change;
    }
  }
}

TEST(Distortions, HighSeverityChangesMoreThanLow) {
  for (const char* name : {"pixelate", "glass_blur", "motion_blur", "snow"}) {
    double weak = 0.0;
    double strong = 0.0;
    for (std::uint64_t i = 0; i < 20; ++i) {
      const Picture before = natural(3, 32, i);
      weak += mean_change(before, distorted(before, name, 1, i));
      strong += mean_change(before, distorted(before, name, 5, i));
    }
    EXPECT_GT(strong, weak) << name;
  }
}

TEST(DistortImages, TheSameSeedGivesTheSameBytesOnAnyNumberOfThreads) {
  for (const std::int64_t side : {28, 32}) {
    const std::int64_t channels = side == 28 ? 1 : 3;
    at::Tensor one = natural_batch(210, channels, side);
    at::Tensor two = one.clone();
    at::Tensor reversed = one.clone();
    at::Tensor other_seed = one.clone();
    std::vector<DistortionJob> jobs = every_distortion_in_turn(210);
    distort_images(one, jobs, 5, 1);
    distort_images(two, jobs, 5, 2);
    distort_images(other_seed, jobs, 6, 2);
    std::reverse(jobs.begin(), jobs.end());
    distort_images(reversed, jobs, 5, 3);
    EXPECT_TRUE(at::equal(one, two));
    EXPECT_TRUE(at::equal(one, reversed));
    EXPECT_FALSE(at::equal(one, other_seed));
  }
}

TEST(DistortImages, LeavesOtherSamplesAlone) {
  at::Tensor images = natural_batch(6, 3, 32);
  const at::Tensor before = images.clone();
  const std::vector<DistortionJob> jobs{{4, builtin_distortions().look_up("black"), 5},
                                        {1, builtin_distortions().look_up("contrast"), 5}};
  distort_images(images, jobs, 1, 2);
  for (const std::int64_t kept : {0, 2, 3, 5}) {
    EXPECT_TRUE(at::equal(images[kept], before[kept])) << kept;
  }
  EXPECT_FALSE(at::equal(images[1], before[1]));
  EXPECT_EQ(images[4].sum().item<std::int64_t>(), 0);  // spec: input-noise C6
}

TEST(DistortImages, SamplesOfOneDistortionDifferUnlessTheGeneratorIsFixed) {
  std::vector<DistortionJob> jobs;
  for (std::int64_t i = 0; i < 4; ++i) {
    jobs.push_back({i, builtin_distortions().look_up("generative_surrogate"), 5});
  }
  at::Tensor own = at::zeros({4, 3, 32, 32}, at::kByte);
  at::Tensor shared = own.clone();
  distort_images(own, jobs, 3, 2);
  distort_images(shared, jobs, 3, 2, GenMode::fixed);
  EXPECT_FALSE(at::equal(own[0], own[1]));
  EXPECT_TRUE(at::equal(shared[0], shared[1]));
  EXPECT_TRUE(at::equal(shared[0], shared[3]));
  EXPECT_GT(shared.sum().item<std::int64_t>(), 0);
}

TEST(DistortImages, RefusesWhatItCannotDistort) {
  at::Tensor good = at::zeros({2, 3, 8, 8}, at::kByte);
  at::Tensor floats = at::zeros({2, 3, 8, 8});
  at::Tensor two_channels = at::zeros({2, 2, 8, 8}, at::kByte);
  at::Tensor strided = at::zeros({2, 8, 8, 3}, at::kByte).permute({0, 3, 1, 2});
  const DistortionInfo* any = builtin_distortions().look_up("black");
  const std::vector<DistortionJob> one{{0, any, 5}};
  EXPECT_THAT(error_text([&] { distort_images(floats, one, 1, 1); }),
              HasSubstr("must be contiguous bytes"));
  EXPECT_THAT(error_text([&] { distort_images(strided, one, 1, 1); }),
              HasSubstr("must be contiguous bytes"));
  EXPECT_THAT(error_text([&] { distort_images(two_channels, one, 1, 1); }),
              HasSubstr("have 2 channels"));
  const auto attempt = [&good](const std::vector<DistortionJob>& jobs) {
    return error_text([&] { distort_images(good, jobs, 1, 2); });
  };
  EXPECT_THAT(attempt({{2, any, 5}}), HasSubstr("sample 2 to distort is not one of the 2"));
  EXPECT_THAT(attempt({{-1, any, 5}}), HasSubstr("sample -1"));
  EXPECT_THAT(attempt({{0, nullptr, 5}}), HasSubstr("sample 0 is to be distorted by nothing"));
  EXPECT_THAT(attempt({{0, any, 6}}), HasSubstr("severity '6' is not known"));
  EXPECT_THAT(attempt({{0, any, 5}, {0, any, 5}}), HasSubstr("sample 0 is to be distorted twice"));
  EXPECT_EQ(good.sum().item<std::int64_t>(), 0);
}

TEST(DistortImages, NoJobsAndNoImagesAreFine) {
  at::Tensor none = at::zeros({0, 3, 8, 8}, at::kByte);
  EXPECT_NO_THROW(distort_images(none, {}, 1, 4));
}

}  // namespace winnow::distortion_test

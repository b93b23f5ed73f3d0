#include "winnow/net/join/member_data.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/small_run.h"
#include "winnow/data/image_files.h"
#include "winnow/data/npz_writer.h"

namespace winnow::member::member_data_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Charter charter_of(std::vector<std::string> classes, std::int64_t channels = 1,
                   std::int64_t height = 8, std::int64_t width = 8) {
  Charter charter;
  charter.data = {{"class_names", std::move(classes)},
                  {"channels", channels},
                  {"height", height},
                  {"width", width},
                  {"mean", std::vector<double>(static_cast<std::size_t>(channels), 0.5)},
                  {"std", std::vector<double>(static_cast<std::size_t>(channels), 0.5)},
                  {"crop", 0},
                  {"augment", false}};
  return charter;
}

at::Tensor counting(at::IntArrayRef shape) {
  return at::arange(0, 251, at::kByte)
      .repeat(100)
      .narrow(0, 0, c10::multiply_integers(shape))
      .view(shape);
}

std::filesystem::path archive(const TestFolder& folder, const at::Tensor& images,
                              const Labels& labels, const std::vector<std::string>& classes = {}) {
  NpzWriter writer;
  writer.add("images", images);
  writer.add("labels", labels);
  if (!classes.empty()) {
    writer.add("class_names", classes);
  }
  writer.write(folder / "own.npz");
  return folder / "own.npz";
}

std::string text_of(const std::filesystem::path& path, const Charter& charter) {
  return error_text([&] { read_member_data(path, charter); });
}

TEST(MemberData, ReadsAllOfAnArchiveInItsOrderWithChannelsFirstLastOrNone) {
  const TestFolder folder;
  const at::Tensor images = counting({3, 3, 4, 5});
  const Charter charter = charter_of({"a", "b"}, 3, 4, 5);
  const Samples first = read_member_data(archive(folder, images, {1, 0, 1}), charter);
  EXPECT_TRUE(at::equal(first.images, images));
  EXPECT_THAT(first.labels, ElementsAre(1, 0, 1));
  const at::Tensor last = images.permute({0, 2, 3, 1}).contiguous();
  EXPECT_TRUE(
      at::equal(read_member_data(archive(folder, last, {1, 0, 1}), charter).images, images));
  const at::Tensor grey = counting({2, 8, 8});
  EXPECT_TRUE(at::equal(
      read_member_data(archive(folder, grey, {0, 0}, {"a", "b"}), charter_of({"a", "b"})).images,
      grey.unsqueeze(1)));
}

TEST(MemberData, SaysWhatDoesNotFitInAnArchive) {
  const TestFolder folder;
  const Charter charter = charter_of({"a", "b"});
  EXPECT_THAT(text_of(archive(folder, counting({2, 9, 8}), {0, 1}), charter),
              HasSubstr("own.npz: images: shape (2, 9, 8), but the federation's images are 1x8x8 | "
                        "bring them to that size"));
  EXPECT_THAT(text_of(archive(folder, counting({2, 8, 8}), {0, 2}), charter),
              HasSubstr("own.npz: labels: label 2 of sample 1 is outside 0..1"));
  EXPECT_THAT(text_of(archive(folder, counting({2, 8, 8}), {0}), charter),
              HasSubstr("labels: 1 labels, but 2 images"));
  EXPECT_THAT(text_of(archive(folder, counting({2, 8, 8}), {0, 1}, {"b", "a"}), charter),
              HasSubstr("class_names are b, a, but the federation's classes are a, b"));
  EXPECT_THAT(text_of(archive(folder, at::empty({0, 8, 8}, at::kByte), {}), charter),
              HasSubstr("holds nothing"));
  NpzWriter only;
  only.add("labels", Labels{1});
  only.write(folder / "half.npz");
  EXPECT_THAT(text_of(folder / "half.npz", charter),
              HasSubstr("half.npz: has no array 'images' | it has: labels"));
  EXPECT_THAT(text_of(folder / "none", charter), HasSubstr("no such file or folder | expected a"));
}

TEST(MemberData, ReadsFoldersByTheNamesOfTheFederationsClasses) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "this build reads no image files";
  }
  const TestFolder folder;
  write_photos(folder / "photos", 2, 3);  // classes a and b
  // Another order, and a class of which this member has nothing.
  const Samples grey = read_member_data(folder / "photos", charter_of({"b", "c", "a"}));
  EXPECT_THAT(grey.labels, ElementsAre(2, 2, 2, 0, 0, 0));
  EXPECT_THAT(grey.images.sizes(), ElementsAre(6, 1, 8, 8));
  const Samples colour = read_member_data(folder / "photos", charter_of({"a", "b"}, 3, 16, 16));
  EXPECT_THAT(colour.images.sizes(), ElementsAre(6, 3, 16, 16));
  EXPECT_THAT(text_of(folder / "photos", charter_of({"a", "bee"})),
              HasSubstr("class 'b' is not one of the federation's | "));
  EXPECT_THAT(
      text_of(folder / "photos", charter_of({"a", "b"}, 1, 8, 9)),
      HasSubstr("image files become squares, but the federation's images are 8x9 | bring an "
                ".npz file"));
  std::filesystem::create_directories(folder / "empty");
  EXPECT_THAT(text_of(folder / "empty", charter_of({"a"})), HasSubstr("empty: no class folders"));
}

TEST(MemberData, ReadsListsWithNamesAndNumbers) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "this build reads no image files";
  }
  const TestFolder folder;
  write_photos(folder / "photos", 2, 2);
  write_file_whole(folder / "own.txt",
                   "photos/a/10.png cat\nphotos/b/10.png dog\nphotos/b/11.png 0\n");
  const Charter charter = charter_of({"dog", "cat"});
  EXPECT_THAT(read_member_data(folder / "own.txt", charter).labels, ElementsAre(1, 0, 0));
  write_file_whole(folder / "bad.txt", "photos/a/10.png cat\nphotos/b/10.png dogg\n");
  EXPECT_THAT(
      text_of(folder / "bad.txt", charter),
      HasSubstr("bad.txt line 2: class 'dogg' is not one of the federation's | did you mean "
                "'dog'?"));
}

}  // namespace winnow::member::member_data_test

#include "winnow/data/idx.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_testing.h"

namespace winnow::idx_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string images_error(const TempFolder& folder, const std::string& bytes) {
  const auto file = folder.write("images", bytes);
  return error_text([&] { read_idx_images(file); });
}

TEST(Idx, PlainAndGzipGiveTheSameImages) {
  const TempFolder folder("idx_same");
  const auto plain = folder.write("plain", idx_images(3));
  const auto packed = folder.write("packed", deflated(idx_images(3), 31));
  const at::Tensor images = read_idx_images(plain);
  EXPECT_EQ(images.sizes(), (std::vector<std::int64_t>{3, 1, 2, 2}));
  EXPECT_EQ(images[2][0][1][0].item<int>(), 10);
  EXPECT_TRUE(at::equal(images, read_idx_images(packed)));
  EXPECT_THAT(read_idx_labels(folder.write("labels", idx_labels("\x03\x01")), 10),
              ElementsAre(3, 1));
}

TEST(Idx, DamagedHeadersNameFileAndByte) {
  const TempFolder folder("idx_header");
  const std::string good = idx_images(2);
  EXPECT_THAT(images_error(folder, "\x89PNG" + good.substr(4)),
              HasSubstr("images: not an IDX file: starts with 0x8950, expected 0x0000 (byte 0)"));
  std::string wrong_type = good;
  wrong_type[2] = 0x0d;
  EXPECT_THAT(images_error(folder, wrong_type),
              HasSubstr("element type 0x0d, expected 0x08 (unsigned byte) (byte 2)"));
  EXPECT_THAT(images_error(folder, idx_labels("\x01\x02\x03\x04\x05\x06\x07\x08")),
              HasSubstr("1 dimensions, expected 3 (byte 3)"));
  EXPECT_THAT(images_error(folder, good.substr(0, 10)),
              HasSubstr("truncated: 4 bytes needed, 2 left (byte 8)"));
  EXPECT_THAT(images_error(folder, ""), HasSubstr("truncated"));
  std::string empty = good;
  empty[7] = 0;
  EXPECT_THAT(images_error(folder, empty), HasSubstr("size 0 is 0 (byte 4)"));
}

TEST(Idx, TruncatedAndTrailingBytesAreRefused) {
  const TempFolder folder("idx_length");
  const std::string good = idx_images(2);
  EXPECT_THAT(images_error(folder, good.substr(0, good.size() - 1)), HasSubstr("truncated"));
  EXPECT_THAT(images_error(folder, good + "xyz"), HasSubstr("3 trailing bytes (byte 24)"));
  EXPECT_THAT(images_error(folder, deflated(good.substr(0, good.size() - 1), 31)),
              HasSubstr("truncated: 8 bytes expected after the header, 7 present (byte 23)"));
  EXPECT_THAT(images_error(folder, deflated(good + "xyz", 31)),
              HasSubstr("trailing bytes in the uncompressed data (byte 24)"));
  const std::string packed = deflated(good, 31);
  EXPECT_THAT(images_error(folder, packed + "x"),
              HasSubstr("trailing bytes after the compressed data"));
  EXPECT_THAT(images_error(folder, packed.substr(0, packed.size() - 3)),
              HasSubstr("truncated compressed data"));
  std::string wrong_sum = packed;
  wrong_sum[wrong_sum.size() - 6] ^= 1;
  EXPECT_THAT(images_error(folder, wrong_sum), HasSubstr("corrupt compressed data"));
}

TEST(Idx, AForgedHeaderAllocatesNothing) {
  const TempFolder folder("idx_forged");
  const std::string forged = std::string("\0\0\x08\x03", 4) + std::string(12, '\xff') + "data";
  EXPECT_THAT(images_error(folder, forged),
              HasSubstr("the header promises 4294967295x4294967295x4294967295 elements"));
  EXPECT_THAT(images_error(folder, deflated(forged, 31)), HasSubstr("the header promises"));
  const std::string large =
      std::string("\0\0\x08\x03", 4) + big(1 << 20, 4) + big(1 << 10, 4) + big(1 << 10, 4);
  EXPECT_THAT(images_error(folder, deflated(large, 31)), HasSubstr("the header promises"));
}

TEST(Idx, LabelsOutOfRangeNameSampleAndByte) {
  const TempFolder folder("idx_labels");
  const auto file = folder.write("labels", idx_labels("\x01\x02\x0c"));
  EXPECT_THAT(error_text([&] { read_idx_labels(file, 10); }),
              HasSubstr("labels: label 12 of sample 2 is outside 0..9 (byte 10)"));
}

TEST(Idx, ImagesAndLabelsMustBeAsMany) {
  const TempFolder folder("idx_counts");
  const auto images = folder.write("images", idx_images(2));
  const auto labels = folder.write("labels", idx_labels("\x01\x02\x03"));
  EXPECT_THAT(error_text([&] { read_idx_samples(images, labels, 10); }),
              HasSubstr("labels: 3 labels, but " + images.string() + " has 2 images (byte 4)"));
}

TEST(Idx, AFolderMayMixNamesAndCompression) {
  const TempFolder folder("idx_folder");
  folder.write("train-images-idx3-ubyte.gz", deflated(idx_images(3), 31));
  folder.write("train-labels.idx1-ubyte", idx_labels("\x01\x02\x03"));
  folder.write("t10k-images-idx3-ubyte", idx_images(1));
  const std::string missing = error_text([&] { read_idx_folder(folder.path(), 10); });
  EXPECT_THAT(missing, HasSubstr("holds none of t10k-labels-idx1-ubyte"));
  folder.write("t10k-labels-idx1-ubyte", idx_labels("\x04"));
  const DataSet set = read_idx_folder(folder.path(), 10);
  EXPECT_THAT(set.train.labels, ElementsAre(1, 2, 3));
  EXPECT_EQ(set.test.size(), 1);
}

}  // namespace winnow::idx_test

#include "winnow/data/cifar.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_testing.h"

namespace winnow::cifar_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void write_cifar10(const TempFolder& folder) {
  for (char batch = 1; batch <= 5; ++batch) {
    folder.write(fmt::format("data_batch_{}.bin", static_cast<int>(batch)),
                 cifar_record(std::string(1, batch), batch, 100, 50));
  }
  folder.write("test_batch.bin",
               cifar_record("\x09", 1, 2, 3) + cifar_record(std::string(1, '\0'), 4, 5, 6));
}

TEST(Cifar, ReadsTheFiveBatchesInOrder) {
  const TempFolder folder("cifar10");
  write_cifar10(folder);
  const DataSet set = read_cifar10(folder.path());
  EXPECT_THAT(set.train.labels, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(set.test.labels, ElementsAre(9, 0));
  EXPECT_EQ(set.train.images.sizes(), (std::vector<std::int64_t>{5, 3, 32, 32}));
  EXPECT_EQ(set.train.images[3][0][31][31].item<int>(), 4);
  EXPECT_EQ(set.test.images[1][2][0][0].item<int>(), 6);
  EXPECT_EQ(set.class_names.front(), "airplane");
}

TEST(Cifar, TakesClassNamesFromTheMetaFile) {
  const TempFolder folder("cifar10_names");
  write_cifar10(folder);
  folder.write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_EQ(read_cifar10(folder.path()).class_names.back(), "j");
  folder.write("batches.meta.txt", "a\nb\n");
  EXPECT_THAT(error_text([&] { read_cifar10(folder.path()); }),
              HasSubstr("batches.meta.txt: 2 class names, expected 10"));
}

TEST(Cifar, DamageNamesFileAndByte) {
  const TempFolder folder("cifar_damage");
  const auto read = [&](const std::string& bytes) {
    const auto file = folder.write("data_batch_1.bin", bytes);
    return error_text([&] { read_cifar_file(file, 1, 10); });
  };
  const std::string record = cifar_record("\x01", 1, 1, 1);
  EXPECT_THAT(read(record + "xx"),
              HasSubstr("data_batch_1.bin: 3075 bytes are not a whole number of records of 3073 "
                        "bytes (byte 3073)"));
  EXPECT_THAT(read(""), HasSubstr("0 bytes are not a whole number of records"));
  EXPECT_THAT(read(record + cifar_record("\x0a", 1, 1, 1)),
              HasSubstr("label 10 of record 1 is outside 0..9 (byte 3073)"));
  EXPECT_THAT(error_text([&] { read_cifar10(folder.path()); }), HasSubstr("data_batch_1.bin"));
}

TEST(Cifar, Cifar100UsesTheFineLabel) {
  const TempFolder folder("cifar100");
  folder.write("train.bin", cifar_record("\x13\x63", 7, 8, 9));
  folder.write("test.bin", cifar_record("\x01\x02", 7, 8, 9));
  const DataSet set = read_cifar100(folder.path());
  EXPECT_THAT(set.train.labels, ElementsAre(99));
  EXPECT_EQ(set.classes, 100);
  EXPECT_EQ(set.class_names[42], "42");
  EXPECT_EQ(set.train.images[0][0][0][0].item<int>(), 7);
  folder.write("test.bin", cifar_record("\x01\x64", 7, 8, 9));
  EXPECT_THAT(error_text([&] { read_cifar100(folder.path()); }),
              HasSubstr("test.bin: label 100 of record 0 is outside 0..99 (byte 1)"));
}

}  // namespace winnow::cifar_test

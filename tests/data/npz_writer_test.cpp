#include "winnow/data/npz_writer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_testing.h"
#include "winnow/data/npz.h"

namespace winnow::npz_writer_test {

using ::testing::ElementsAre;

TEST(NpzWriter, WritesWhatTheReaderReads) {
  const TempFolder folder("npz_writer");
  const at::Tensor images = at::arange(24, at::kByte).view({2, 3, 2, 2});
  NpzWriter writer;
  writer.add("images", images);
  writer.add("labels", Labels{7, -1});
  writer.add("names", std::vector<std::string>{"a", "Zürich", ""});
  writer.add("nothing", Labels{});
  writer.add("shares", at::arange(6, at::kFloat).view({2, 3}) / 8);
  writer.write(folder.path() / "x.npz");
  const NpzFile file(folder.path() / "x.npz");
  EXPECT_THAT(file.names(), ElementsAre("images", "labels", "names", "nothing", "shares"));
  EXPECT_TRUE(at::equal(read_array_images(file.array("images"), {}), images));
  EXPECT_EQ(file.array("labels").whole(0), 7);
  EXPECT_EQ(file.array("labels").whole(1), -1);
  EXPECT_EQ(file.array("names").text(1), "Zürich");
  EXPECT_EQ(file.array("names").text(2), "");
  EXPECT_EQ(file.array("nothing").size(), 0U);
  EXPECT_EQ(file.array("shares").real(3), 0.375);
}

}  // namespace winnow::npz_writer_test

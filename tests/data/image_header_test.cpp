#include "winnow/data/image_header.h"

#include <gtest/gtest.h>

#include <string>

namespace winnow::image_header_test {

std::string extent(const std::string& bytes) {
  const auto found = read_image_extent(bytes);
  return found ? std::to_string(found->width) + "x" + std::to_string(found->height) : "none";
}

const std::string kPng = std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x02\0\x01\0\0", 24);
const std::string kStart("\xff\xd8", 2);
const std::string kComment(
    "\xff\xfe\x00\x06"
    "abcd",
    8);
// A frame of 8 bits, height 0x0102, width 0x0304.
const std::string kFrame("\xff\xc0\x00\x0b\x08\x01\x02\x03\x04\x01", 10);

TEST(ImageHeader, ReadsPng) {
  EXPECT_EQ(extent(kPng + "more"), "258x65536");
  EXPECT_EQ(extent(kPng.substr(0, 23)), "none");
  EXPECT_EQ(extent(kPng.substr(0, 12) + "IDAT12345678"), "none");
}

TEST(ImageHeader, ReadsJpegBehindOtherSegments) {
  EXPECT_EQ(extent(kStart + kFrame), "772x258");
  EXPECT_EQ(extent(kStart + kComment + kFrame), "772x258");
  EXPECT_EQ(extent(kStart + "junk\xff\xff" + kComment.substr(1) + kFrame), "772x258")
      << "decoders skip bytes between segments and repeated FFs";
  EXPECT_EQ(extent(kStart + std::string("\xff\x00", 2) + kFrame), "772x258");
}

TEST(ImageHeader, WhatIsCutOffOrSomethingElseHasNone) {
  for (const std::string& bytes :
       {std::string(), std::string("GIF89a"), kStart, kStart + kComment,
        kStart + std::string("\xff\xfe\xff\xff", 4) + kFrame,
        kStart + std::string("\xff\xda\x00\x02", 4) + kFrame, kStart + kFrame.substr(0, 8)}) {
    EXPECT_EQ(extent(bytes), "none");
  }
}

}  // namespace winnow::image_header_test

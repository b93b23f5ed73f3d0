#include "winnow/report/contact_sheet.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "winnow/base/error.h"

namespace winnow::contact_sheet_test {

using Pixel = std::array<int, 3>;
constexpr Pixel kWhite{255, 255, 255};
constexpr Pixel kInk{32, 32, 32};

// An RGB picture read back from PNG bytes that use no filter.
struct Picture {
  explicit Picture(const std::string& png) {
    const auto number = [&](std::size_t at) {
      std::uint32_t value = 0;
      for (const char c : std::string_view(png).substr(at, 4)) {
        value = (value << 8U) | static_cast<unsigned char>(c);
      }
      return static_cast<std::size_t>(value);
    };
    width = number(16);
    height = number(20);
    EXPECT_EQ(png[25], 2) << "colour type RGB";
    lines.resize(height * (3 * width + 1));
    uLongf size = lines.size();
    EXPECT_EQ(uncompress(lines.data(), &size, reinterpret_cast<const Bytef*>(png.data() + 41),
                         number(33)),
              Z_OK);
    EXPECT_EQ(size, lines.size());
  }

  Pixel at(std::size_t x, std::size_t y) const {
    const std::size_t place = y * (3 * width + 1) + 1 + 3 * x;
    return {lines.at(place), lines.at(place + 1), lines.at(place + 2)};
  }
  std::size_t dark(std::size_t left, std::size_t top, std::size_t right, std::size_t bottom) const {
    std::size_t count = 0;
    for (std::size_t y = top; y < bottom; ++y) {
      for (std::size_t x = left; x < right; ++x) {
        count += at(x, y) == kInk ? 1 : 0;
      }
    }
    return count;
  }

  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<Bytef> lines;
};

at::Tensor grey(std::int64_t height, std::int64_t width, int value) {
  return at::full({1, height, width}, value, at::kByte);
}

std::string error_text(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    return error.what();
  }
  return "no error";
}

TEST(ContactSheet, SmallImagesAreDoubledAndLaidOutInRows) {
  const std::vector<ContactRow> rows{{"ab", {grey(28, 28, 1), grey(28, 28, 2)}},
                                     {"c", {grey(28, 28, 3)}}};
  const Picture sheet(contact_sheet_png(rows));
  // Margins of 8, two characters of 12, two images of 56 with a gap of 3.
  EXPECT_EQ(sheet.width, 8U + 24U + 8U + 56U + 3U + 56U + 8U);
  EXPECT_EQ(sheet.height, 8U + 56U + 3U + 56U + 8U);
}

TEST(ContactSheet, TheFactorIsTheLeastWholeOneThatReaches56Pixels) {
  for (const auto& [side, shown] : std::vector<std::pair<std::int64_t, std::size_t>>{
           {28, 56}, {32, 64}, {20, 60}, {56, 56}, {64, 64}, {224, 224}}) {
    const std::vector<ContactRow> rows{{"", {grey(side, side, 1)}}};
    EXPECT_EQ(Picture(contact_sheet_png(rows)).width, shown + 16) << side;
  }
}

TEST(ContactSheet, EveryPixelOfAnImageBecomesASquare) {
  at::Tensor first = grey(28, 28, 100);
  first[0][0][0] = 10;
  first[0][27][3] = 20;
  const std::vector<ContactRow> rows{{"x", {first, grey(28, 28, 200)}}};
  const Picture sheet(contact_sheet_png(rows));
  const std::size_t left = 8 + 12 + 8;
  for (const std::size_t step : {0U, 1U}) {
    EXPECT_EQ(sheet.at(left + step, 8 + step), (Pixel{10, 10, 10}));
    EXPECT_EQ(sheet.at(left + 6 + step, 8 + 54 + step), (Pixel{20, 20, 20}));
  }
  EXPECT_EQ(sheet.at(left + 2, 8), (Pixel{100, 100, 100}));
  EXPECT_EQ(sheet.at(left - 1, 8), kWhite);
  EXPECT_EQ(sheet.at(left, 7), kWhite);
  EXPECT_EQ(sheet.at(left + 56, 8), kWhite);
  EXPECT_EQ(sheet.at(left + 58, 8), kWhite);
  EXPECT_EQ(sheet.at(left + 59, 8), (Pixel{200, 200, 200}));
  EXPECT_EQ(sheet.at(left, 8 + 56), kWhite);
}

TEST(ContactSheet, ColourImagesKeepTheirChannelsWhateverTheirMemoryLayout) {
  at::Tensor image = at::zeros({3, 32, 32}, at::kByte);
  image[0].fill_(11);
  image[1].fill_(22);
  image[2].fill_(33);
  image[1][4][5] = 99;
  const at::Tensor turned = image.transpose(1, 2).contiguous().transpose(1, 2);
  ASSERT_FALSE(turned.is_contiguous());
  for (const at::Tensor& drawn : {image, turned}) {
    const Picture sheet(contact_sheet_png(std::vector<ContactRow>{{"", {drawn}}}));
    EXPECT_EQ(sheet.at(8, 8), (Pixel{11, 22, 33}));
    EXPECT_EQ(sheet.at(8 + 10, 8 + 8), (Pixel{11, 99, 33}));
  }
}

TEST(ContactSheet, LabelsAreDrawnInTheMiddleOfTheirRow) {
  const std::vector<ContactRow> rows{{"l", {grey(28, 28, 1)}}, {"", {grey(28, 28, 1)}}};
  const Picture sheet(contact_sheet_png(rows));
  // A row of 56 pixels, text of 18: it starts 19 below the top. The l is 10 dots of 2 x 2 pixels.
  const std::size_t top = 8 + 19;
  EXPECT_EQ(sheet.dark(8, top, 20, top + 14), 4U * 10U);
  EXPECT_EQ(sheet.dark(0, 0, 28, sheet.height), 4U * 10U) << "nothing outside, no empty label";
  EXPECT_EQ(sheet.at(8 + 2, top), kInk);
  EXPECT_EQ(sheet.at(8, top), kWhite);
}

TEST(ContactSheet, LettersReachBelowTheLineWhereTheyShould) {
  const auto dark_below_the_line = [](const char* label) {
    const Picture sheet(contact_sheet_png(std::vector<ContactRow>{{label, {grey(28, 28, 1)}}}));
    return sheet.dark(8, 27 + 14, 20, 27 + 18);
  };
  EXPECT_EQ(dark_below_the_line("n"), 0U);
  for (const char* label : {"g", "p", "q", "y"}) {
    EXPECT_GT(dark_below_the_line(label), 0U) << label;
  }
}

TEST(ContactSheet, EveryCharacterOfALabelHasItsOwnShape) {
  const std::string all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.,:/()%";
  std::vector<std::string> shapes;
  for (const char code : all + '\x01') {
    const Picture sheet(
        contact_sheet_png(std::vector<ContactRow>{{std::string(1, code), {grey(28, 28, 1)}}}));
    std::string shape;
    for (std::size_t y = 27; y < 45; y += 2) {
      for (std::size_t x = 8; x < 18; x += 2) {
        shape += sheet.at(x, y) == kInk ? '#' : ' ';
      }
    }
    EXPECT_NE(shape.find('#'), std::string::npos) << code;
    EXPECT_EQ(std::count(shapes.begin(), shapes.end(), shape), 0) << code;
    shapes.push_back(shape);
  }
}

TEST(ContactSheet, ACharacterOfManyBytesIsOneBox) {
  const Picture sheet(contact_sheet_png(std::vector<ContactRow>{{"\xc3\xa9", {grey(28, 28, 1)}}}));
  EXPECT_EQ(sheet.width, 8U + 12U + 8U + 56U + 8U);
  EXPECT_EQ(sheet.dark(8, 8, 20, 64), 4U * 20U);
}

TEST(ContactSheet, AHeaderTakesALineAboveAndWidensTheSheet) {
  const std::vector<ContactRow> rows{{"", {grey(28, 28, 1)}}};
  const Picture sheet(contact_sheet_png(rows, "a long header"));
  EXPECT_EQ(sheet.width, 8U + 13U * 12U + 8U);
  EXPECT_EQ(sheet.height, 8U + 18U + 8U + 56U + 8U);
  EXPECT_GT(sheet.dark(8, 8, sheet.width, 26), 0U);
  EXPECT_EQ(sheet.at(8, 34), (Pixel{1, 1, 1}));
}

TEST(ContactSheet, ImagesItCannotDrawAreRefused) {
  const auto sheet_of = [](const std::vector<at::Tensor>& images) {
    return [images] { contact_sheet_png(std::vector<ContactRow>{{"fog 3", images}}); };
  };
  EXPECT_EQ(error_text(sheet_of({at::zeros({2, 4, 4}, at::kByte)})),
            "row 'fog 3' of a contact sheet holds Byte [2,4,4], expected Byte [c,h,w] with 1 or 3 "
            "channels");
  EXPECT_EQ(error_text(sheet_of({at::zeros({1, 4, 4})})),
            "row 'fog 3' of a contact sheet holds Float [1,4,4], expected Byte [c,h,w] with 1 or "
            "3 channels");
  EXPECT_EQ(error_text(sheet_of({at::Tensor()})),
            "row 'fog 3' of a contact sheet holds nothing, expected Byte [c,h,w] with 1 or 3 "
            "channels");
  EXPECT_EQ(
      error_text(sheet_of({grey(4, 4, 0), grey(4, 5, 0)})),
      "row 'fog 3' of a contact sheet holds an image of 5 x 4 pixels, the first one has 4 x 4");
  EXPECT_EQ(error_text(sheet_of({})), "a contact sheet needs at least one image");
}

}  // namespace winnow::contact_sheet_test

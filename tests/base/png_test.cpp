#include "winnow/base/png.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/error.h"

namespace winnow::png_test {

struct Chunk {
  std::string type;
  std::string content;
  std::uint32_t sum = 0;
};

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (const char c : bytes.substr(at, 4)) {
    value = (value << 8U) | static_cast<unsigned char>(c);
  }
  return value;
}

std::vector<Chunk> chunks_of(std::string_view png) {
  std::vector<Chunk> chunks;
  for (std::size_t at = 8; at < png.size();) {
    const std::size_t length = number_at(png, at);
    EXPECT_LE(at + 12 + length, png.size());
    chunks.push_back({std::string(png.substr(at + 4, 4)), std::string(png.substr(at + 8, length)),
                      number_at(png, at + 8 + length)});
    at += 12 + length;
  }
  return chunks;
}

std::string inflated(const std::string& packed, std::size_t expected) {
  std::string plain(expected + 1, '\0');
  uLongf size = plain.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                       reinterpret_cast<const Bytef*>(packed.data()), packed.size()),
            Z_OK);
  plain.resize(size);
  return plain;
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

TEST(Png, StartsWithTheSignatureAndDescribesThePicture) {
  const std::vector<std::uint8_t> pixels(5 * 2 * 3, 7);
  const std::string png = encode_png(pixels, 5, 2, 3);
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  const std::vector<Chunk> chunks = chunks_of(png);
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_EQ(chunks[0].type, "IHDR");
  EXPECT_EQ(chunks[0].content, std::string("\0\0\0\5\0\0\0\2\10\2\0\0\0", 13));
  EXPECT_EQ(chunks[1].type, "IDAT");
  EXPECT_EQ(chunks[2].type, "IEND");
  EXPECT_EQ(chunks[2].content, "");
  EXPECT_EQ(chunks[2].sum, 0xae426082U);  // the same in every PNG file
}

TEST(Png, GreyHasColourTypeZero) {
  const std::string png = encode_png(std::vector<std::uint8_t>(300, 1), 300, 1, 1);
  EXPECT_EQ(chunks_of(png).at(0).content, std::string("\0\0\1\54\0\0\0\1\10\0\0\0\0", 13));
}

TEST(Png, EveryChunkCarriesItsChecksum) {
  std::vector<std::uint8_t> pixels(64 * 48);
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
  for (const Chunk& chunk : chunks_of(encode_png(pixels, 64, 48, 1))) {
    const std::string counted = chunk.type + chunk.content;
    EXPECT_EQ(
        crc32(0, reinterpret_cast<const Bytef*>(counted.data()), static_cast<uInt>(counted.size())),
        chunk.sum)
        << chunk.type;
  }
}

TEST(Png, TheDataInflatesToRowsThatStartWithFilterZero) {
  const std::vector<std::uint8_t> grey{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(inflated(chunks_of(encode_png(grey, 2, 3, 1)).at(1).content, 9),
            std::string("\0\1\2\0\3\4\0\5\6", 9));
  const std::vector<std::uint8_t> rgb{255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 8, 7};
  EXPECT_EQ(inflated(chunks_of(encode_png(rgb, 2, 2, 3)).at(1).content, 14),
            std::string("\0\xff\0\0\0\xff\0\0\0\0\xff\x9\x8\x7", 14));
}

TEST(Png, SizesThatDoNotFitAreRefused) {
  const std::vector<std::uint8_t> pixels(12);
  EXPECT_EQ(error_text([&] { encode_png(pixels, 2, 2, 4); }),
            "a PNG has 1 or 3 channels here, got 4");
  EXPECT_EQ(error_text([&] { encode_png(pixels, 0, 2, 3); }),
            "a PNG cannot be 0 x 2 pixels: 1 to 2147483647 per side are possible");
  EXPECT_EQ(error_text([&] { encode_png(pixels, 2, -2, 3); }),
            "a PNG cannot be 2 x -2 pixels: 1 to 2147483647 per side are possible");
  EXPECT_EQ(error_text([&] { encode_png(pixels, std::int64_t{1} << 31, 1, 1); }),
            "a PNG cannot be 2147483648 x 1 pixels: 1 to 2147483647 per side are possible");
  EXPECT_EQ(error_text([&] { encode_png(pixels, 2, 3, 3); }),
            "a PNG of 2 x 3 pixels in 3 channels does not fit 12 bytes");
  EXPECT_EQ(error_text([&] { encode_png(pixels, 5, 2, 1); }),
            "a PNG of 5 x 2 pixels in 1 channels does not fit 12 bytes");
  EXPECT_EQ(error_text([&] { encode_png({}, 1, 1, 1); }),
            "a PNG of 1 x 1 pixels in 1 channels does not fit 0 bytes");
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(error_text([&] { encode_png(pixels, most, most, 3); }),
            "a PNG of 2147483647 x 2147483647 pixels in 3 channels does not fit 12 bytes");
}

}  // namespace winnow::png_test

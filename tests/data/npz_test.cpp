#include "winnow/data/npz.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "data/data_testing.h"
#include "winnow/data/inflater.h"

namespace winnow::npz_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string npy_error(const std::string& bytes) {
  return error_text([&] { const NpyArray array(bytes, "a.npy"); });
}

TEST(Npy, ReadsTextsOfBothKinds) {
  const std::string wide = little('a', 4) + little(0xE9, 4) + little(0x1F600, 4) + little(0, 4);
  EXPECT_EQ(NpyArray(npy("<U4", "(1,)", wide), "a").text(0), "a\xc3\xa9\xf0\x9f\x98\x80");
  const NpyArray narrow(npy("|S3", "(2,)", std::string("ab\0xyz", 6)), "a");
  EXPECT_EQ(narrow.text(0), "ab");
  EXPECT_EQ(narrow.text(1), "xyz");
  EXPECT_EQ(NpyArray(npy("<i2", "(1,)", little(7, 2)), "a").text(0), "7");
  EXPECT_THAT(error_text([&] { narrow.whole(0); }), HasSubstr("a: expected whole numbers"));
  EXPECT_THAT(error_text([] { NpyArray(npy("<U1", "(1,)", little(0xD800, 4)), "a").text(0); }),
              HasSubstr("0xd800 is no letter"));
  EXPECT_THAT(error_text([] { NpyArray(npy("|S1", "(1,)", "\xff"), "a").text(0); }),
              HasSubstr("a: text 0 is not UTF-8"));
}

TEST(Npy, ReadsEveryDtype) {
  const auto whole = [](const std::string& descr, const std::string& data) {
    return NpyArray(npy(descr, "(1,)", data), "a").whole(0);
  };
  EXPECT_EQ(whole("|u1", "\xff"), 255);
  EXPECT_EQ(whole("|i1", "\xff"), -1);
  EXPECT_EQ(whole("<i1", "\xff"), -1);
  EXPECT_EQ(whole("<u2", little(40000, 2)), 40000);
  EXPECT_EQ(whole("<i2", little(0xfffe, 2)), -2);
  EXPECT_EQ(whole("<u4", little(4000000000U, 4)), 4000000000);
  EXPECT_EQ(whole("<i4", little(0xfffffffdU, 4)), -3);
  EXPECT_EQ(whole("<u8", little(1ULL << 40, 8)), std::int64_t{1} << 40);
  EXPECT_EQ(whole("<i8", little(static_cast<std::uint64_t>(-4), 8)), -4);
  EXPECT_EQ(NpyArray(npy("<f2", "(1,)", little(0x3e00, 2)), "a").real(0), 1.5);
  EXPECT_EQ(NpyArray(npy("<f2", "(1,)", little(0x8001, 2)), "a").real(0), -0x1p-24);
  EXPECT_EQ(NpyArray(npy("<f4", "(1,)", little(0x3fc00000, 4)), "a").real(0), 1.5);
  EXPECT_EQ(NpyArray(npy("<f8", "(1,)", little(0x3ff8000000000000, 8)), "a").real(0), 1.5);
  EXPECT_EQ(NpyArray(npy("|u1", "()", "\x07"), "a").whole(0), 7);
}

TEST(Npy, ReadsVersionTwoAndKeepsTheShape) {
  const std::string header = "{'shape': (2, 3), 'fortran_order': False, 'descr': '|u1'}";
  const NpyArray array(
      std::string("\x93NUMPY\x02\x00", 8) + little(header.size(), 4) + header + "abcdef", "a");
  EXPECT_THAT(array.shape(), ElementsAre(2, 3));
  EXPECT_EQ(array.shape_text(), "(2, 3)");
  EXPECT_EQ(array.whole(5), 'f');
}

TEST(Npy, RefusesWhatItDoesNotRead) {
  EXPECT_THAT(npy_error(npy("|u1", "(2, 2)", "abcd", true)),
              HasSubstr("a.npy: the array is in Fortran order | save numpy.ascontiguousarray"));
  EXPECT_THAT(npy_error(npy(">i4", "(1,)", "abcd")), HasSubstr("dtype '>i4' is not supported"));
  EXPECT_THAT(npy_error(npy("|b1", "(1,)", "a")), HasSubstr("dtype '|b1' is not supported"));
  EXPECT_THAT(npy_error(npy("<c8", "(1,)", "abcdefgh")), HasSubstr("dtype '<c8' is not supported"));
  EXPECT_THAT(npy_error(npy("<U0", "(1,)", "ab")), HasSubstr("dtype '<U0' is not supported"));
  EXPECT_THAT(npy_error(npy("<U9999", "(1,)", "ab")), HasSubstr("dtype '<U9999' is not supported"));
  EXPECT_THAT(npy_error(npy("<U12", "(1,)", "ab")), HasSubstr("does not fit 2 bytes"));
  std::string version = npy("|u1", "(1,)", "a");
  version[6] = 3;
  EXPECT_THAT(npy_error(version), HasSubstr(".npy version 3.0, expected 1.0 or 2.0 (byte 6)"));
  EXPECT_THAT(NpyArray(npy("<u8", "(1,)", little(~0ULL, 8)), "a").size(), 1);
  EXPECT_THAT(error_text([] { NpyArray(npy("<u8", "(1,)", little(~0ULL, 8)), "a").whole(0); }),
              HasSubstr("value 18446744073709551615 is too large"));
}

TEST(Npy, DamageNamesTheByte) {
  EXPECT_THAT(npy_error("hello"), HasSubstr("a.npy: not a .npy array (byte 0)"));
  EXPECT_THAT(npy_error(std::string("\x93NUMPY\x01\x00", 8) + little(500, 2) + "{"),
              HasSubstr("truncated: 500 bytes needed, 1 left (byte 10)"));
  EXPECT_THAT(npy_error(npy("|u1", "(3,)", "ab")),
              HasSubstr("shape (3,) does not fit 2 bytes of data"));
  EXPECT_THAT(npy_error(npy("|u1", "(1,)", "ab")), HasSubstr("does not fit 2 bytes"));
  EXPECT_THAT(npy_error(npy("<i8", "(4611686018427387904, 4)", "")), HasSubstr("does not fit"));
  EXPECT_THAT(npy_error(npy("|u1", "(99999999999999999999,)", "")), HasSubstr("expected a size"));
  EXPECT_THAT(npy_error(npy("|u1", "(-1,)", "")), HasSubstr("bad header: expected a size"));
  EXPECT_THAT(npy_error(npy("|u1", "1", "")), HasSubstr("bad header: expected '('"));
  const std::string bare = "{'descr': '|u1'}";
  EXPECT_THAT(npy_error(std::string("\x93NUMPY\x01\x00", 8) + little(bare.size(), 2) + bare),
              HasSubstr("the header lacks"));
}

TEST(Npy, AnyCutOfAFileIsAnErrorAndNothingElse) {
  const std::string whole = npy("<i4", "(2,)", little(7, 8));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(npy_error(whole.substr(0, length)), "no error") << length;
  }
}

TEST(Npz, ReadsStoredAndDeflatedEntries) {
  const TempFolder folder("npz_read");
  ZipWriter zip;
  zip.add("a.npy", npy("|u1", "(3,)", "abc"), false);
  zip.add("notes.txt", "skipped", false);
  zip.add("b.npy", npy("<i4", "(1, 1)", little(9, 4)), true);
  const NpzFile file(folder.write("x.npz", zip.bytes("a comment")));
  EXPECT_THAT(file.names(), ElementsAre("a", "b"));
  EXPECT_EQ(file.array("a").data(), "abc");
  EXPECT_EQ(file.array("b").whole(0), 9);
  EXPECT_THAT(error_text([&] { file.array("c"); }),
              HasSubstr("x.npz: has no array 'c' | it has: a, b"));
}

TEST(Npz, RefusesDamagedArchives) {
  const TempFolder folder("npz_damage");
  const auto read = [&](const std::string& bytes) {
    const auto file = folder.write("x.npz", bytes);
    return error_text([&] { NpzFile(file).array("a"); });
  };
  const std::string content = npy("|u1", "(3,)", "abc");
  ZipWriter stored;
  stored.add("a.npy", content, false);
  const std::string good = stored.bytes();
  EXPECT_EQ(read(good), "no error");
  EXPECT_THAT(read("hello"), HasSubstr("x.npz: not a zip archive, or truncated"));
  EXPECT_THAT(read(good.substr(0, good.size() - 1)), HasSubstr("not a zip archive, or truncated"));

  std::string flipped = good;
  flipped[flipped.find("abc")] = 'x';
  EXPECT_THAT(read(flipped), HasSubstr("entry 'a.npy' has a wrong checksum"));
  std::string zip64 = good;
  zip64.replace(zip64.size() - 6, 4, 4, '\xff');
  EXPECT_THAT(read(zip64), HasSubstr("x.npz: zip64 archives are not supported"));
  std::string moved = good;
  moved[moved.size() - 6] ^= 1;
  EXPECT_THAT(read(moved), HasSubstr("(byte "));
  std::string method = good;
  method[method.find("PK\x01\x02") + 10] = 9;
  EXPECT_THAT(read(method), HasSubstr("uses compression method 9"));
  std::string locked = good;
  locked[locked.find("PK\x01\x02") + 8] = 1;
  EXPECT_THAT(read(locked), HasSubstr("entry 'a.npy' is encrypted"));
}

TEST(Npz, TheClaimedSizeBoundsDecompression) {
  const TempFolder folder("npz_bound");
  const auto read = [&](std::uint64_t claimed) {
    ZipWriter zip;
    zip.add("a.npy", npy("|u1", "(3,)", "abc"), true, claimed);
    const auto file = folder.write("x.npz", zip.bytes());
    return error_text([&] { NpzFile(file).array("a"); });
  };
  EXPECT_THAT(read(20), HasSubstr("trailing bytes in the uncompressed data (byte 20)"));
  EXPECT_THAT(read(5000), HasSubstr("bytes, expected 5000"));
  EXPECT_THAT(read(0xfffffff0), HasSubstr("claims 4294967280 bytes, at most "));
}

TEST(Npz, ASmallFileCannotTakeAllMemory) {
  const TempFolder folder("npz_bomb");
  const std::string blank(std::size_t{300} << 20, '\0');
  ZipWriter zip;
  zip.add("a.npy", npy("|u1", "(314572800,)", blank), true);
  const std::string bytes = zip.bytes();
  EXPECT_LT(bytes.size(), 400'000U);
  const auto file = folder.write("x.npz", bytes);
  EXPECT_THAT(error_text([&] { NpzFile(file).array("a"); }),
              HasSubstr("bytes, at most 268435456 are read from"));
}

TEST(Npz, TheLimitGrowsWithTheFile) {
  EXPECT_EQ(Inflater::most_bytes(0), 1032U);
  EXPECT_EQ(Inflater::most_bytes(1000), 1032U * 1001U) << "deflate cannot do more";
  EXPECT_EQ(Inflater::most_bytes(1'000'000), 256U << 20);
  EXPECT_EQ(Inflater::most_bytes(100'000'000), 10'000'000'000U);
}

TEST(Npz, AnyFlippedByteIsFoundOrHarmless) {
  const TempFolder folder("npz_flip");
  ZipWriter zip;
  zip.add("a.npy", npy("|u1", "(3,)", "abc"), true);
  const std::string good = zip.bytes();
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x55);
    const auto file = folder.write("x.npz", bytes);
    try {
      EXPECT_EQ(NpzFile(file).array("a").data(), "abc") << i;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data) << i;
    }
  }
}

std::string medmnist(const std::string& images_shape, std::size_t image_bytes,
                     const std::string& train_labels, const std::string& labels_shape = "(2, 1)") {
  std::string pixels;
  for (std::size_t i = 0; i < image_bytes; ++i) {
    pixels += static_cast<char>(i);
  }
  ZipWriter zip;
  zip.add("train_images.npy", npy("|u1", images_shape, pixels), true);
  zip.add("train_labels.npy", npy("|u1", labels_shape, train_labels), true);
  zip.add("val_images.npy", npy("|u1", images_shape, pixels), true);
  zip.add("val_labels.npy", npy("|u1", "(2, 1)", "\x08\x08"), true);
  zip.add("test_images.npy", npy("|u1", images_shape, pixels), false);
  zip.add("test_labels.npy", npy("<i8", "(2, 1)", little(3, 8) + little(1, 8)), false);
  return zip.bytes();
}

TEST(MedMnist, ColourImagesBecomePlanesAndTheValidationPartIsLeftOut) {
  const TempFolder folder("medmnist_colour");
  const auto file = folder.write("m.npz", medmnist("(2, 2, 2, 3)", 24, "\x02\x01"));
  const DataSet set = read_npz_set(file, 0);
  EXPECT_EQ(set.train.images.sizes(), (std::vector<std::int64_t>{2, 3, 2, 2}));
  EXPECT_TRUE(set.train.images.is_contiguous());
  EXPECT_EQ(set.train.images[1][2][0][1].item<int>(), 12 + 3 + 2);
  EXPECT_THAT(set.train.labels, ElementsAre(2, 1));
  EXPECT_THAT(set.test.labels, ElementsAre(3, 1));
  EXPECT_EQ(set.classes, 4);
}

TEST(MedMnist, GreyImagesHaveOneChannel) {
  const TempFolder folder("medmnist_grey");
  const auto file = folder.write("m.npz", medmnist("(2, 3, 2)", 12, "\x02\x01"));
  EXPECT_EQ(read_npz_set(file, 9).train.images.sizes(), (std::vector<std::int64_t>{2, 1, 3, 2}));
}

TEST(MedMnist, RefusesWhatIsNotOneLabelPerImage) {
  const TempFolder folder("medmnist_wrong");
  const auto read = [&](const std::string& bytes, std::int64_t classes) {
    const auto file = folder.write("m.npz", bytes);
    return error_text([&] { read_npz_set(file, classes); });
  };
  EXPECT_THAT(read(medmnist("(2, 3, 2)", 12, "abcd", "(2, 2)"), 0),
              HasSubstr("m.npz: train_labels: shape (2, 2), expected one label per image: (n, 1)"));
  EXPECT_THAT(read(medmnist("(2, 3, 2)", 12, "\x01", "(1, 1)"), 0),
              HasSubstr("train_labels: 1 labels, but 2 images"));
  EXPECT_THAT(read(medmnist("(2, 2, 2, 2)", 16, "\x01\x01"), 0),
              HasSubstr("train_images: shape (2, 2, 2, 2), expected (n, h, w), or (n, h, w, c) or "
                        "(n, c, h, w) with 1 or 3 channels | for other numbers of channels set "
                        "data.layout"));
  EXPECT_THAT(read(medmnist("(2, 3, 2)", 12, "\x01\x09"), 9),
              HasSubstr("train_labels: label 9 of sample 1 is outside 0..8"));
  ZipWriter many;
  many.add("train_images.npy", npy("|u1", "(1, 1, 1)", "x"), false);
  many.add("train_labels.npy", npy("<i4", "(1,)", little(99'989, 4)), false);
  many.add("test_images.npy", npy("|u1", "(1, 1, 1)", "x"), false);
  many.add("test_labels.npy", npy("<i4", "(1,)", little(0, 4)), false);
  EXPECT_THAT(read(many.bytes(), 0),
              HasSubstr("train_labels: label 99989 of sample 0 is outside 0..9999"));
}

// Two images in each part, of any dtype; the labels are 0 and 1.
std::string arrays(const std::string& descr, const std::string& shape, const std::string& train,
                   const std::string& test) {
  ZipWriter zip;
  zip.add("train_images.npy", npy(descr, shape, train), true);
  zip.add("train_labels.npy", npy("|u1", "(2,)", std::string("\0\1", 2)), false);
  zip.add("test_images.npy", npy(descr, shape, test), true);
  zip.add("test_labels.npy", npy("|u1", "(2,)", std::string("\0\1", 2)), false);
  return zip.bytes();
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string bytes_up_to(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += static_cast<char>(i);
  }
  return bytes;
}

std::vector<std::int64_t> levels(const at::Tensor& images) {
  const at::Tensor flat = images.flatten().to(at::kLong);
  return {flat.data_ptr<std::int64_t>(), flat.data_ptr<std::int64_t>() + flat.numel()};
}

TEST(Arrays, EveryLevelSurvivesBothRangesAndAllWidths) {
  const TempFolder folder("arrays_floats");
  std::vector<double> unit;
  std::vector<double> byte;
  std::vector<std::int64_t> expected;
  for (int level = 0; level < 256; ++level) {
    unit.push_back(level / 255.0);
    byte.push_back(level);
    expected.push_back(level);
  }
  for (const auto& values : {unit, byte}) {
    const std::vector<float> floats(values.begin(), values.end());
    const std::vector<at::Half> halves(floats.begin(), floats.end());
    const std::vector<std::pair<std::string, std::string>> forms{
        {"<f8", raw(values)}, {"<f4", raw(floats)}, {"<f2", raw(halves)}};
    for (const auto& [descr, data] : forms) {
      const auto file = folder.write("a.npz", arrays(descr, "(2, 8, 16)", data, data));
      const DataSet set = read_npz_set(file, 0);
      EXPECT_EQ(set.train.images.sizes(), (std::vector<std::int64_t>{2, 1, 8, 16}));
      EXPECT_EQ(set.train.images.scalar_type(), at::kByte);
      EXPECT_EQ(levels(set.train.images), expected) << descr << " up to " << values.back();
      EXPECT_EQ(levels(set.test.images), expected);
    }
  }
}

TEST(Arrays, FloatsBecomeTheNearestLevel) {
  const TempFolder folder("arrays_nearest");
  const std::string data = raw<float>({0.0F, 0.4F, 0.5F, 1.49F, 2.5F, 254.6F, 255.0F, 100.0F});
  const auto file = folder.write("a.npz", arrays("<f4", "(2, 2, 2)", data, data));
  EXPECT_THAT(levels(read_npz_set(file, 0).train.images),
              ElementsAre(0, 0, 1, 1, 3, 255, 255, 100));
}

TEST(Arrays, TheRangeOfFloatsIsPlainOrGiven) {
  const TempFolder folder("arrays_range");
  const auto read = [&](const std::vector<float>& train, const std::vector<float>& test,
                        const std::string& range = "auto") {
    const auto file = folder.write("a.npz", arrays("<f4", "(2, 1, 2)", raw(train), raw(test)));
    return error_text([&] { read_npz_set(file, 0, {.float_range = range}); });
  };
  const std::vector<float> unit{0.0F, 0.5F, 1.0F, 0.25F};
  const std::vector<float> byte{0.0F, 50.0F, 255.0F, 0.25F};
  EXPECT_EQ(read(unit, unit), "no error");
  EXPECT_EQ(read(unit, byte, "0..255"), "no error");
  EXPECT_THAT(read(unit, byte), HasSubstr("a.npz: train_images go from 0 to 1, but "));
  EXPECT_THAT(read(unit, byte),
              HasSubstr("a.npz: test_images from 0 to 255 | bring both to one range, or set "
                        "data.float_range to \"0..1\" or \"0..255\""));
  EXPECT_THAT(read(unit, byte, "0..1"),
              HasSubstr("a.npz: test_images: sample 0 has the value 50, expected 0 to 1 | save the "
                        "images as they are before normalisation, from 0 to 1 or 0 to 255"));
  EXPECT_THAT(read({0.0F, 1.5F, 0.0F, 0.0F}, unit),
              HasSubstr("train_images: the largest value is 1.5: neither 0..1 nor 0..255 is plain "
                        "| clip the images to 0..1, or set data.float_range to \"0..255\""));
  EXPECT_THAT(read({0.0F, 0.5F, 256.0F, 0.0F}, byte),
              HasSubstr("train_images: sample 1 has the value 256, expected 0 to 255"));
  EXPECT_THAT(read({0.0F, 0.5F, -0.5F, 0.0F}, unit),
              HasSubstr("train_images: sample 1 has the value -0.5, expected 0 to 1"));
  EXPECT_THAT(read({0.0F, std::nanf(""), 0.5F, 0.0F}, unit),
              HasSubstr("train_images: sample 0 has the value nan, expected 0 to 1"));
  EXPECT_THAT(read({0.0F, 0.5F, 0.0F, INFINITY}, byte),
              HasSubstr("train_images: sample 1 has the value inf, expected 0 to 255"));
}

TEST(Arrays, ChannelsAreFoundByTheShapeOrSaid) {
  const TempFolder folder("arrays_layout");
  const auto file = [&](const std::string& shape, int size) {
    return folder.write("a.npz", arrays("|u1", shape, bytes_up_to(size), bytes_up_to(size)));
  };
  const auto read = [&](const std::string& shape, int size, const std::string& layout) {
    const auto path = file(shape, size);
    return read_npz_set(path, 0, {.layout = layout}).train.images;
  };
  const at::Tensor first = read("(2, 3, 2, 2)", 24, "auto");
  EXPECT_EQ(first.sizes(), (std::vector<std::int64_t>{2, 3, 2, 2}));
  EXPECT_EQ(first[1][2][0][1].item<int>(), 12 + 4 + 4 + 1);
  const at::Tensor last = read("(2, 2, 2, 3)", 24, "auto");
  EXPECT_EQ(last[1][2][0][1].item<int>(), 12 + 3 + 2);
  EXPECT_EQ(read("(2, 4, 2, 1)", 16, "auto").sizes(), (std::vector<std::int64_t>{2, 1, 4, 2}));
  EXPECT_EQ(read("(2, 1, 4, 2)", 16, "auto").sizes(), (std::vector<std::int64_t>{2, 1, 4, 2}));
  EXPECT_EQ(read("(2, 3, 2, 3)", 36, "nchw").sizes(), (std::vector<std::int64_t>{2, 3, 2, 3}));
  EXPECT_EQ(read("(2, 3, 2, 3)", 36, "nhwc").sizes(), (std::vector<std::int64_t>{2, 3, 3, 2}));
  EXPECT_EQ(read("(2, 4, 2, 2)", 32, "nchw").sizes(), (std::vector<std::int64_t>{2, 4, 2, 2}));
  EXPECT_EQ(read("(2, 3, 3)", 18, "nchw").sizes(), (std::vector<std::int64_t>{2, 1, 3, 3}));
  const auto fault = [&](const std::string& shape, int size, const std::string& layout) {
    const auto path = file(shape, size);
    return error_text([&] { read_npz_set(path, 0, {.layout = layout}); });
  };
  EXPECT_THAT(
      fault("(2, 3, 2, 3)", 36, "auto"),
      HasSubstr("train_images: shape (2, 3, 2, 3) may have its channels first or last | set "
                "data.layout to \"nchw\" (first) or \"nhwc\" (last)"));
  EXPECT_THAT(fault("(2, 17, 1, 1)", 34, "nchw"),
              HasSubstr("shape (2, 17, 1, 1) has 17 channels by data.layout = \"nchw\", expected "
                        "at most 16"));
  EXPECT_THAT(fault("(2, 4)", 8, "nchw"), HasSubstr("train_images: shape (2, 4), expected"));
  EXPECT_THAT(fault("(0, 4, 4)", 0, "auto"),
              HasSubstr("train_images: shape (0, 4, 4) holds nothing"));
}

TEST(Arrays, FloatsAndBytesAreReadAlike) {
  const TempFolder folder("arrays_both");
  std::vector<float> values;
  for (int i = 0; i < 24; ++i) {
    values.push_back(static_cast<float>(i) / 255.0F);
  }
  const auto file = folder.write("a.npz", arrays("<f4", "(2, 2, 2, 3)", raw(values), raw(values)));
  const auto bytes =
      folder.write("b.npz", arrays("|u1", "(2, 2, 2, 3)", bytes_up_to(24), bytes_up_to(24)));
  EXPECT_TRUE(read_npz_set(file, 0).train.images.equal(read_npz_set(bytes, 0).train.images));
}

TEST(Arrays, OtherNumbersAreRefused) {
  const TempFolder folder("arrays_dtype");
  const auto file = folder.write("a.npz", arrays("<i2", "(2, 1, 1)", "abcd", "abcd"));
  EXPECT_THAT(error_text([&] { read_npz_set(file, 0); }),
              HasSubstr("train_images: expected images of dtype |u1, <f2, <f4 or <f8 | save "
                        "images.astype(numpy.uint8)"));
}

TEST(Arrays, AFolderOfArraysIsReadLikeAnArchive) {
  const TempFolder folder("arrays_folder");
  folder.write("train_images.npy", npy("|u1", "(2, 1, 2)", "abcd"));
  folder.write("train_labels.npy", npy("<i8", "(2,)", little(1, 8) + little(0, 8)));
  folder.write("test_images.npy", npy("|u1", "(1, 1, 2)", "ef"));
  EXPECT_THAT(error_text([&] { read_npz_set(folder.path(), 0); }), HasSubstr("test_labels.npy"));
  folder.write("test_labels.npy", npy("|u1", "(1,)", "\x01"));
  const DataSet set = read_npz_set(folder.path(), 0);
  EXPECT_EQ(levels(set.train.images), (std::vector<std::int64_t>{'a', 'b', 'c', 'd'}));
  EXPECT_THAT(set.train.labels, ElementsAre(1, 0));
  EXPECT_EQ(set.test.size(), 1);
}

}  // namespace winnow::npz_test

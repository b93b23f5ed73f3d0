// What the tests of the readers share: a folder of their own and files made byte by byte.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

#include "testing/errors.h"
#include "winnow/base/error.h"

namespace winnow {

// A folder that is empty at the start and gone at the end of a test.
class TempFolder {
 public:
  explicit TempFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("winnow_data_" + name)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Writes a file, making the folders above it, and returns its path.
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file;
  }

 private:
  std::filesystem::path path_;
};

inline std::string little(std::uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) {
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
  }
  return bytes;
}

inline std::string big(std::uint64_t value, int width) {
  const std::string reversed = little(value, width);
  return {reversed.rbegin(), reversed.rend()};
}

inline std::uint32_t crc_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// window 31: gzip, 15: zlib, -15: raw, as zlib counts.
inline std::string deflated(std::string_view bytes, int window) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
  std::string input(bytes);
  std::string out(bytes.size() + 1024, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A .npy file of format version 1.
inline std::string npy(const std::string& descr, const std::string& shape, std::string_view data,
                       bool fortran = false) {
  const std::string header = "{'descr': '" + descr +
                             "', 'fortran_order': " + (fortran ? "True" : "False") +
                             ", 'shape': " + shape + ", }\n";
  return std::string("\x93NUMPY\x01\x00", 8) + little(header.size(), 2) + header +
         std::string(data);
}

// Builds zip archives, with damage where a test asks for it.
class ZipWriter {
 public:
  void add(const std::string& name, const std::string& content, bool deflate,
           std::uint64_t claimed_size = 0) {
    const std::string data = deflate ? deflated(content, -15) : content;
    const std::string fields = little(deflate ? 8 : 0, 2) + little(0, 4) +
                               little(crc_of(content), 4) + little(data.size(), 4) +
                               little(claimed_size > 0 ? claimed_size : content.size(), 4) +
                               little(name.size(), 2);
    directory_ += "PK\x01\x02" + little(20, 2) + little(20, 2) + little(0, 2) + fields +
                  little(0, 2) + little(0, 2) + little(0, 8) + little(body_.size(), 4) + name;
    // The local header claims nothing and carries an extra field, as NumPy's writer does.
    body_ += "PK\x03\x04" + little(20, 2) + little(0, 2) + little(deflate ? 8 : 0, 2) +
             little(0, 4) + little(0, 4) + std::string(8, '\xff') + little(name.size(), 2) +
             little(20, 2) + name + std::string(20, 'e') + data;
    ++count_;
  }

  std::string bytes(const std::string& comment = "") const {
    return body_ + directory_ + "PK\x05\x06" + little(0, 4) + little(count_, 2) +
           little(count_, 2) + little(directory_.size(), 4) + little(body_.size(), 4) +
           little(comment.size(), 2) + comment;
  }

 private:
  std::string body_;
  std::string directory_;
  std::uint64_t count_ = 0;
};

// A PNG of one colour; 3 channels or 1.
inline std::string png(std::uint32_t width, std::uint32_t height, std::string_view pixel) {
  const auto chunk = [](const std::string& kind, const std::string& data) {
    return big(data.size(), 4) + kind + data + big(crc_of(kind + data), 4);
  };
  std::string rows;
  for (std::uint32_t y = 0; y < height; ++y) {
    rows += '\0';
    for (std::uint32_t x = 0; x < width; ++x) {
      rows += pixel;
    }
  }
  const std::string colour_type = pixel.size() == 3 ? "\x02" : std::string(1, '\0');
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR",
               big(width, 4) + big(height, 4) + "\x08" + colour_type + std::string(3, '\0')) +
         chunk("IDAT", deflated(rows, 15)) + chunk("IEND", "");
}

// An 8x8 JPEG of about red 200, green 60, blue 30.
inline std::string jpeg() {
  constexpr std::string_view kHex =
      "ffd8ffe000104a46494600010100000100010000ffdb00430003020203020203030303040303040508050504"
      "04050a070706080c0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f1718161418121415"
      "14ffdb00430103040405040509050509140d0b0d141414141414141414141414141414141414141414141414"
      "1414141414141414141414141414141414141414141414141414ffc000110800080008030122000211010311"
      "01ffc4001500010100000000000000000000000000000007ffc4001410010000000000000000000000000000"
      "0000ffc4001501010100000000000000000000000000000708ffc40014110100000000000000000000000000"
      "000000ffda000c03010002110311003f00978017580fffd9";
  std::string bytes;
  for (std::size_t i = 0; i < kHex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(kHex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

// IDX files of `count` images of 2x2 with pixel values counting up, and their labels.
inline std::string idx_images(std::uint32_t count) {
  std::string bytes = std::string("\0\0\x08\x03", 4) + big(count, 4) + big(2, 4) + big(2, 4);
  for (std::uint32_t i = 0; i < 4 * count; ++i) {
    bytes += static_cast<char>(i);
  }
  return bytes;
}

inline std::string idx_labels(std::string_view labels) {
  return std::string("\0\0\x08\x01", 4) + big(labels.size(), 4) + std::string(labels);
}

// A CIFAR record: label bytes, then red, green and blue planes of one value each.
inline std::string cifar_record(const std::string& labels, char red, char green, char blue) {
  return labels + std::string(1024, red) + std::string(1024, green) + std::string(1024, blue);
}

}  // namespace winnow

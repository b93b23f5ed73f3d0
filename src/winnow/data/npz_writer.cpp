#include "winnow/data/npz_writer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "winnow/base/error.h"
#include "winnow/base/files.h"

namespace winnow {
namespace {

std::string zip_number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
  return text;
}

// Format version 1; the data begin at a multiple of 64.
std::string npy_header(const std::string& descr, const std::string& shape) {
  constexpr std::size_t kBefore = 10;
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  while ((kBefore + header.size() + 1) % 64 != 0) {
    header.push_back(' ');
  }
  header.push_back('\n');
  return std::string("\x93NUMPY\x01\x00", 8) + zip_number(header.size(), 2) + header;
}

std::string shape_text_of(at::IntArrayRef sizes) {
  std::string text = "(";
  for (const std::int64_t size : sizes) {
    text += fmt::format("{}, ", size);
  }
  return text + ")";
}

}  // namespace

void NpzWriter::add(const std::string& name, const at::Tensor& values) {
  const at::Tensor whole = values.to(at::kCPU).contiguous();
  const bool bytes = whole.scalar_type() == at::kByte;
  if (!bytes && whole.scalar_type() != at::kFloat) {
    throw Error(ErrorKind::internal,
                fmt::format("array '{}' is neither of bytes nor of float32", name));
  }
  add_array(name, bytes ? "|u1" : "<f4", shape_text_of(whole.sizes()),
            {static_cast<const char*>(whole.data_ptr()), whole.nbytes()});
}

void NpzWriter::add(const std::string& name, const Labels& labels) {
  add_array(name, "<i8", fmt::format("({},)", labels.size()),
            {reinterpret_cast<const char*>(labels.data()), labels.size() * sizeof(labels[0])});
}

void NpzWriter::add(const std::string& name, const std::vector<std::string>& texts) {
  std::size_t longest = 1;
  for (const std::string& text : texts) {
    longest = std::max(longest, text.size());
  }
  std::string data;
  for (const std::string& text : texts) {
    data += text + std::string(longest - text.size(), '\0');
  }
  add_array(name, fmt::format("|S{}", longest), fmt::format("({},)", texts.size()), data);
}

void NpzWriter::add_array(const std::string& name, const std::string& descr,
                          const std::string& shape, std::string_view data) {
  const std::string header = npy_header(descr, shape);
  uLong checksum = crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
  if (!data.empty()) {  // of nothing it would begin anew
    checksum = crc32_z(checksum, reinterpret_cast<const Bytef*>(data.data()), data.size());
  }
  const std::string file = name + ".npy";
  const std::uint64_t size = header.size() + data.size();
  // Versions, flags, method, time and date; then what is the same in both headers.
  const std::string fields = zip_number(0, 2) + zip_number(0, 2) + zip_number(0, 2) +
                             zip_number(0x21, 2) + zip_number(checksum, 4) + zip_number(size, 4) +
                             zip_number(size, 4) + zip_number(file.size(), 2) + zip_number(0, 2);
  directory_ += "PK\x01\x02" + zip_number(20, 2) + zip_number(20, 2) + fields + zip_number(0, 2) +
                zip_number(0, 8) + zip_number(body_.size(), 4) + file;
  body_ += "PK\x03\x04" + zip_number(20, 2) + fields + file;
  body_ += header;
  body_ += data;
  ++count_;
}

void NpzWriter::write(const std::filesystem::path& path) const {
  constexpr std::uint64_t kMost = 0xffffffff;
  if (body_.size() + directory_.size() >= kMost) {
    throw Error(ErrorKind::run,
                fmt::format("{} would have {} bytes, and the format holds 4 GB", path.string(),
                            body_.size()),
                "use more clients, or fewer samples by data.train_limit and data.test_limit");
  }
  write_file_whole(path, body_ + directory_ + "PK\x05\x06" + zip_number(0, 4) +
                             zip_number(count_, 2) + zip_number(count_, 2) +
                             zip_number(directory_.size(), 4) + zip_number(body_.size(), 4) +
                             zip_number(0, 2));
}

}  // namespace winnow

// NumPy's .npy arrays: format versions 1 and 2, little-endian numbers or short texts in C order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace winnow {

// An array as it lies in its file. Holds the file's bytes; elements are read on demand.
class NpyArray {
 public:
  enum class Kind { whole, unsigned_whole, real, text };

  // Takes the content of a .npy file; `name` stands for it in messages. Throws Error(kind data) for
  // other dtypes, Fortran order, other versions, and content that does not fit the shape.
  NpyArray(std::string bytes, std::string name);

  const std::string& name() const { return name_; }
  Kind kind() const { return kind_; }
  std::size_t width() const { return width_; }  // bytes of one element
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::string shape_text() const;  // "(3, 28, 28)", as NumPy writes it
  std::size_t size() const { return (bytes_.size() - start_) / width_; }
  std::string_view data() const { return std::string_view(bytes_).substr(start_); }

  // An element in C order. whole() needs an integer kind and a value of at most 63 bits.
  std::int64_t whole(std::size_t index) const;
  double real(std::size_t index) const;
  // An element as text: of the kind text (dtype <U or |S) what it says, in UTF-8; of whole numbers
  // their digits. Throws Error(kind data) for texts that are not UTF-8.
  std::string text(std::size_t index) const;

 private:
  std::string unicode(std::size_t index) const;
  void read_dtype(std::string_view descr);
  std::uint64_t raw(std::size_t index) const;

  std::string bytes_;
  std::string name_;
  std::size_t start_ = 0;
  Kind kind_ = Kind::whole;
  std::size_t width_ = 1;
  bool wide_ = false;  // a text of four bytes a letter
  std::vector<std::int64_t> shape_;
};

NpyArray read_npy(const std::filesystem::path& path);

}  // namespace winnow

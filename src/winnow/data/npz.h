// NumPy's .npz archives (zip files of .npy arrays) and the data sets that come in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/data/data_set.h"
#include "winnow/data/npy.h"

namespace winnow {

class ByteReader;

// An open archive: its directory is read and checked, entries are unpacked on demand. Stored and
// deflated entries are read; zip64, encryption and other methods are refused by name.
class NpzFile {
 public:
  explicit NpzFile(const std::filesystem::path& path);

  // The arrays' names without ".npy", in the archive's order.
  std::vector<std::string> names() const;
  // Throws Error(kind data) for an array that is not there, naming those that are.
  NpyArray array(std::string_view name) const;

 private:
  struct Entry {
    std::string name;
    std::uint64_t method = 0;
    std::uint64_t flags = 0;
    std::uint64_t checksum = 0;
    std::uint64_t packed = 0;
    std::uint64_t size = 0;
    std::uint64_t header = 0;
  };
  std::size_t find_directory_end() const;
  void read_directory();
  void read_entry(ByteReader& reader);
  std::string unpack(const Entry& entry) const;

  std::string path_;
  std::string bytes_;
  std::vector<Entry> entries_;
};

// What the shape and the values of the images alone may leave open.
struct ArrayOptions {
  std::string layout = "auto";       // or "nhwc" (channels last), "nchw" (channels first)
  std::string float_range = "auto";  // or "0..1", "0..255"
};

// The arrays that a set is read from, by name, and what they are called.
using ArraySource = std::function<NpyArray(const std::string& name)>;
struct ArrayNames {
  std::string train_images = "train_images";
  std::string train_labels = "train_labels";
  std::string test_images = "test_images";
  std::string test_labels = "test_labels";
};

// Four arrays of an archive, as MedMNIST's files hold them, or of a folder of .npy files:
// train_images, train_labels, test_images, test_labels. A validation part is neither trained nor
// tested on, so the numbers stay comparable with sets that have none.
// - Images have the shape (n, h, w), or four axes with 1 or 3 channels behind the others or before
//   height and width. With the layout given, there may be up to 16 channels.
// - They are bytes, or floats from 0 to 1 or from 0 to 255, which become the nearest byte. If the
//   range is not given, it is 0..1 where no value of a part is above 1, and 0..255 where some value
//   is 2 or more; anything between is refused, and so are two parts that differ.
// - Labels are whole numbers of shape (n, 1) or (n,).
// With `classes` 0 they are counted from the labels. Fills train, test, classes and class_names
// (numbers). Throws Error(kind data) for what fits none of this, and for values out of range.
DataSet read_npz_set(const std::filesystem::path& path, std::int64_t classes,
                     const ArrayOptions& options = {});

// Images or labels alone, by the same rules. `classes` 0: any number up to kMostClasses.
at::Tensor read_array_images(NpyArray array, const ArrayOptions& options);
Labels read_array_labels(const NpyArray& array, std::int64_t images, std::int64_t classes);

// The same of any arrays; `where` stands for them in messages.
DataSet read_array_set(const ArraySource& array, const ArrayNames& names, const std::string& where,
                       std::int64_t classes, const ArrayOptions& options);

}  // namespace winnow

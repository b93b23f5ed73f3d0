// NumPy's .npz archives (zip files of .npy arrays) and the MedMNIST sets that come in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
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

// A MedMNIST file: train_images, train_labels, test_images, test_labels; images (n, h, w) or
// (n, h, w, 3), labels (n, 1) or (n,). The validation part is neither trained nor tested on, so the
// numbers stay comparable with sets that have none. With `classes` 0 they are counted from the
// labels. Fills train, test, classes and class_names (numbers).
DataSet read_npz_set(const std::filesystem::path& path, std::int64_t classes);

}  // namespace winnow

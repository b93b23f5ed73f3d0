#include "winnow/data/cifar.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/data/bytes.h"

namespace winnow {
namespace {

constexpr std::uintmax_t kLargestNames = 1 << 20;  // a file of class names
constexpr std::size_t kImageBytes = 3072;          // 3 planes of 32x32

// The class names in a text file, one a line; `fallback` when there is no such file.
std::vector<std::string> read_names(const std::filesystem::path& path,
                                    std::vector<std::string> fallback) {
  if (!std::filesystem::exists(path)) {
    return fallback;
  }
  std::vector<std::string> names;
  for (const std::string& line : split(read_file(path, kLargestNames), '\n')) {
    if (const std::string_view name = trim(line); !name.empty()) {
      names.emplace_back(name);
    }
  }
  if (names.size() != fallback.size()) {
    throw Error(ErrorKind::data, fmt::format("{}: {} class names, expected {}", path.string(),
                                             names.size(), fallback.size()));
  }
  return names;
}

Samples read_train_batches(const std::filesystem::path& folder) {
  Samples train;
  std::vector<at::Tensor> images;
  for (int batch = 1; batch <= 5; ++batch) {
    const Samples part = read_cifar_file(folder / fmt::format("data_batch_{}.bin", batch), 1, 10);
    images.push_back(part.images);
    train.labels.insert(train.labels.end(), part.labels.begin(), part.labels.end());
  }
  train.images = at::cat(images);
  return train;
}

}  // namespace

Samples read_cifar_file(const std::filesystem::path& path, std::int64_t label_bytes,
                        std::int64_t classes) {
  const std::string bytes = read_file(path);
  const auto before = static_cast<std::size_t>(label_bytes);
  const std::size_t record = before + kImageBytes;
  const std::size_t count = bytes.size() / record;
  if (count == 0 || bytes.size() % record != 0) {
    damaged(path.string(), count * record,
            fmt::format("{} bytes are not a whole number of records of {} bytes", bytes.size(),
                        record));
  }
  Samples samples;
  samples.images = at::empty({static_cast<std::int64_t>(count), 3, 32, 32}, at::kByte);
  samples.labels.reserve(count);
  auto* target = samples.images.data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t image = i * record + before;
    const std::int64_t label = static_cast<unsigned char>(bytes[image - 1]);
    if (label >= classes) {
      damaged(path.string(), image - 1,
              fmt::format("label {} of record {} is outside 0..{}", label, i, classes - 1));
    }
    samples.labels.push_back(label);
    std::memcpy(target + i * kImageBytes, bytes.data() + image, kImageBytes);
  }
  return samples;
}

DataSet read_cifar10(const std::filesystem::path& folder) {
  DataSet set;
  set.classes = 10;
  set.class_names = read_names(
      folder / "batches.meta.txt",
      {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"});
  set.train = read_train_batches(folder);
  set.test = read_cifar_file(folder / "test_batch.bin", 1, set.classes);
  return set;
}

DataSet read_cifar100(const std::filesystem::path& folder) {
  std::vector<std::string> numbers;
  for (int i = 0; i < 100; ++i) {
    numbers.push_back(std::to_string(i));
  }
  DataSet set;
  set.classes = 100;
  set.class_names = read_names(folder / "fine_label_names.txt", std::move(numbers));
  set.train = read_cifar_file(folder / "train.bin", 2, set.classes);
  set.test = read_cifar_file(folder / "test.bin", 2, set.classes);
  return set;
}

}  // namespace winnow

#include "winnow/data/idx.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/data/bytes.h"
#include "winnow/data/inflater.h"

namespace winnow {
namespace {

constexpr std::uint64_t kUnsignedByte = 0x08;

// The uncompressed content of a file, front to back.
class Content {
 public:
  explicit Content(const std::filesystem::path& path)
      : name_(path.string()), bytes_(read_file(path)) {
    if (bytes_.starts_with("\x1f\x8b")) {
      inflater_.emplace(bytes_, Inflater::Wrapping::gzip, name_);
    }
  }

  const std::string& name() const { return name_; }

  // An upper bound of what may still be read.
  std::uint64_t most_left() const {
    return inflater_ ? Inflater::most_bytes(bytes_.size()) : bytes_.size() - offset_;
  }

  std::size_t read(std::span<char> out) {
    if (inflater_) {
      return inflater_->read(out);
    }
    const std::size_t count = std::min(out.size(), bytes_.size() - offset_);
    if (count > 0) {
      std::memcpy(out.data(), bytes_.data() + offset_, count);
      offset_ += count;
    }
    return count;
  }

  void finish() {
    if (inflater_) {
      inflater_->finish();
    } else if (offset_ != bytes_.size()) {
      damaged(name_, offset_, fmt::format("{} trailing bytes", bytes_.size() - offset_));
    }
  }

 private:
  std::string name_;
  std::string bytes_;
  std::size_t offset_ = 0;
  std::optional<Inflater> inflater_;
};

// Reads the header, checks it and returns the sizes; the content then stands at the first element.
std::vector<std::uint64_t> read_header(Content& content, std::size_t dimensions) {
  std::string header(4 + 4 * dimensions, '\0');
  const std::size_t present = content.read(header);
  ByteReader reader(std::string_view(header).substr(0, present), content.name());
  if (const std::uint64_t zeros = reader.big(2); zeros != 0) {
    damaged(content.name(), 0,
            fmt::format("not an IDX file: starts with 0x{:04x}, expected 0x0000", zeros));
  }
  if (const std::uint64_t type = reader.big(1); type != kUnsignedByte) {
    damaged(content.name(), 2,
            fmt::format("element type 0x{:02x}, expected 0x08 (unsigned byte)", type));
  }
  if (const std::uint64_t found = reader.big(1); found != dimensions) {
    damaged(content.name(), 3, fmt::format("{} dimensions, expected {}", found, dimensions));
  }
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 0; i < dimensions; ++i) {
    sizes.push_back(reader.big(4));
    if (sizes.back() == 0) {
      damaged(content.name(), reader.offset() - 4, fmt::format("size {} is 0", i));
    }
  }
  return sizes;
}

[[noreturn]] void truncated(const Content& content, std::uint64_t header, std::uint64_t expected,
                            std::uint64_t present) {
  damaged(
      content.name(), header + present,
      fmt::format("truncated: {} bytes expected after the header, {} present", expected, present));
}

// Reads everything after the header, which must be exactly what the sizes promise.
at::Tensor read_elements(Content& content, const std::vector<std::uint64_t>& sizes) {
  const std::uint64_t header = 4 + 4 * sizes.size();
  const auto total = checked_product(sizes);
  if (!total || *total > content.most_left()) {
    damaged(content.name(), 4,
            fmt::format("truncated: the header promises {} elements, at most {} bytes can follow",
                        fmt::join(sizes, "x"), content.most_left()));
  }
  at::Tensor elements = at::empty({static_cast<std::int64_t>(*total)}, at::kByte);
  char* data = reinterpret_cast<char*>(elements.data_ptr<std::uint8_t>());
  const std::size_t present = content.read({data, static_cast<std::size_t>(*total)});
  if (present != *total) {
    truncated(content, header, *total, present);
  }
  content.finish();
  return elements;
}

std::filesystem::path find_part(const std::filesystem::path& folder,
                                const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::filesystem::exists(folder / name)) {
      return folder / name;
    }
  }
  throw Error(ErrorKind::data,
              fmt::format("{}: holds none of {}", folder.string(), join(names, ", ")));
}

std::vector<std::string> variants(const std::string& part, std::string_view kind,
                                  std::string_view suffix) {
  const std::string dashed = fmt::format("{}-{}-{}", part, kind, suffix);
  const std::string dotted = fmt::format("{}-{}.{}", part, kind, suffix);
  return {dashed, dashed + ".gz", dotted, dotted + ".gz"};
}

}  // namespace

at::Tensor read_idx_images(const std::filesystem::path& path) {
  Content content(path);
  const std::vector<std::uint64_t> sizes = read_header(content, 3);
  return read_elements(content, sizes)
      .view({static_cast<std::int64_t>(sizes[0]), 1, static_cast<std::int64_t>(sizes[1]),
             static_cast<std::int64_t>(sizes[2])});
}

Labels read_idx_labels(const std::filesystem::path& path, std::int64_t classes) {
  Content content(path);
  const at::Tensor bytes = read_elements(content, read_header(content, 1));
  const std::span values(bytes.data_ptr<std::uint8_t>(), static_cast<std::size_t>(bytes.numel()));
  Labels labels(values.begin(), values.end());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= classes) {
      damaged(content.name(), 8 + i,
              fmt::format("label {} of sample {} is outside 0..{}", labels[i], i, classes - 1));
    }
  }
  return labels;
}

Samples read_idx_samples(const std::filesystem::path& images, const std::filesystem::path& labels,
                         std::int64_t classes) {
  Samples samples{read_idx_images(images), read_idx_labels(labels, classes)};
  if (samples.images.size(0) != samples.size()) {
    damaged(labels.string(), 4,
            fmt::format("{} labels, but {} has {} images", samples.size(), images.string(),
                        samples.images.size(0)));
  }
  return samples;
}

std::vector<std::string> idx_image_names(const std::string& part) {
  return variants(part, "images", "idx3-ubyte");
}

DataSet read_idx_folder(const std::filesystem::path& folder, std::int64_t classes) {
  const auto read = [&](const std::string& part) {
    return read_idx_samples(find_part(folder, idx_image_names(part)),
                            find_part(folder, variants(part, "labels", "idx1-ubyte")), classes);
  };
  DataSet set;
  set.train = read("train");
  set.test = read("t10k");
  set.classes = classes;
  return set;
}

}  // namespace winnow

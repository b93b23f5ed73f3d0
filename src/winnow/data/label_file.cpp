#include "winnow/data/label_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/data/npy.h"

namespace winnow {
namespace {

[[noreturn]] void reject_labels(const std::string& what, const std::string& hint = "") {
  throw Error(ErrorKind::data, what, hint);
}

std::optional<std::int64_t> whole(std::string_view text) {
  text = trim(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// "49,999"
std::string grouped(std::int64_t count) {
  return count < 1000 ? std::to_string(count)
                      : fmt::format("{},{:03}", grouped(count / 1000), count % 1000);
}

// Collects labels and checks them one by one.
class Collector {
 public:
  Collector(std::string name, std::int64_t expected, std::int64_t classes)
      : name_(std::move(name)), expected_(expected), classes_(classes) {}

  // `where` is "line 3" or "entry 2".
  void add(std::int64_t label, const std::string& where) {
    check(label, where);
    labels_.push_back(label);
  }

  void add_at(std::int64_t index, std::int64_t label, const std::string& where) {
    check(label, where);
    if (index < 0 || index >= expected_) {
      reject_labels(
          fmt::format("{} {}: index {} is outside 0..{}", name_, where, index, expected_ - 1));
    }
    labels_.resize(static_cast<std::size_t>(expected_), -1);
    std::int64_t& slot = labels_[static_cast<std::size_t>(index)];
    if (slot >= 0) {
      reject_labels(fmt::format("{} {}: index {} already has a label", name_, where, index));
    }
    slot = label;
    ++indexed_;
  }

  Labels take() {
    const auto count = indexed_ > 0 ? indexed_ : std::ssize(labels_);
    if (count != expected_) {
      reject_labels(fmt::format("{} has {} labels, the training set has {}", name_, grouped(count),
                                grouped(expected_)),
                    "one label for each training sample is expected, in the data set's order");
    }
    return std::move(labels_);
  }

  const std::string& name() const { return name_; }
  std::int64_t expected() const { return expected_; }

 private:
  void check(std::int64_t label, const std::string& where) const {
    if (label < 0 || label >= classes_) {
      reject_labels(
          fmt::format("{} {}: label {} is outside 0..{}", name_, where, label, classes_ - 1));
    }
  }

  std::string name_;
  std::int64_t expected_;
  std::int64_t classes_;
  Labels labels_;
  std::int64_t indexed_ = 0;
};

// The line of Python that takes one of several columns of labels, such as CIFAR-10N's, out of an
// array.
std::string to_take_a_column(const std::string& array, std::int64_t columns) {
  return fmt::format(
      "to take column 0 of its {}: python3 -c 'import numpy; numpy.save(\"labels.npy\", {}[:, 0])'",
      columns, array);
}

void collect_npy(const std::filesystem::path& path, Collector& collector) {
  const NpyArray array = read_npy(path);
  const std::vector<std::int64_t>& shape = array.shape();
  const bool column = shape.size() == 2 && shape[1] == 1;
  if ((shape.size() != 1 && !column) || array.kind() == NpyArray::Kind::real) {
    const bool real = array.kind() == NpyArray::Kind::real;
    const bool several = !real && shape.size() == 2 && shape[0] == collector.expected();
    reject_labels(
        fmt::format("{}: expected whole numbers of shape (n,) or (n, 1), found {}{}", path.string(),
                    real ? "real numbers of shape " : "", array.shape_text()),
        several ? to_take_a_column(fmt::format("numpy.load(\"{}\")", path.string()), shape[1])
                : "");
  }
  for (std::size_t i = 0; i < array.size(); ++i) {
    collector.add(array.whole(i), fmt::format("entry {}", i));
  }
}

void collect_txt(std::string_view content, Collector& collector) {
  std::int64_t number = 0;
  for (const std::string& line : split(content, '\n')) {
    const std::string where = fmt::format("line {}", ++number);
    if (trim(line).empty()) {
      continue;
    }
    const auto label = whole(line);
    if (!label) {
      reject_labels(
          fmt::format("{} {}: '{}' is not a whole number", collector.name(), where, trim(line)));
    }
    collector.add(*label, where);
  }
}

bool is_header(const std::vector<std::string>& cells) {
  return std::ranges::none_of(cells,
                              [](const std::string& cell) { return whole(cell).has_value(); });
}

void collect_csv(std::string_view content, Collector& collector) {
  std::int64_t number = 0;
  std::size_t columns = 0;
  for (const std::string& line : split(content, '\n')) {
    const std::string where = fmt::format("line {}", ++number);
    if (trim(line).empty()) {
      continue;
    }
    const std::vector<std::string> cells = split(trim(line), ',');
    if (columns == 0) {
      columns = cells.size();
      if (is_header(cells)) {
        continue;
      }
    }
    const auto first = whole(cells.front());
    const auto last = whole(cells.back());
    if (cells.size() != columns || cells.size() > 2 || !first || !last) {
      reject_labels(fmt::format("{} {}: '{}': expected {}", collector.name(), where, trim(line),
                                columns == 2 ? "index,label" : "a label"));
    }
    if (columns == 2) {
      collector.add_at(*first, *last, where);
    } else {
      collector.add(*last, where);
    }
  }
}

// Bytes without a header have no shape; that of a whole number of labels for each sample is likely.
std::string hint_for_unknown(const std::filesystem::path& path, std::int64_t expected) {
  std::string kinds = "expected a name ending in .npy, .csv or .txt";
  std::error_code failed;
  const std::uintmax_t bytes = std::filesystem::file_size(path, failed);
  const auto samples = static_cast<std::uintmax_t>(std::max(expected, std::int64_t{1}));
  if (failed || path.extension() != ".bin" || bytes == 0 || bytes % samples != 0) {
    return kinds;
  }
  const auto columns = static_cast<std::int64_t>(bytes / samples);
  return fmt::format(
      "{}; {}", kinds,
      to_take_a_column(fmt::format("numpy.fromfile(\"{}\", \"uint8\").reshape({}, {})",
                                   path.string(), expected, columns),
                       columns));
}

}  // namespace

Labels read_label_file(const std::filesystem::path& path, std::int64_t expected_count,
                       std::int64_t classes) {
  Collector collector(path.string(), expected_count, classes);
  const std::string extension = path.extension().string();
  if (extension == ".npy") {
    collect_npy(path, collector);
  } else if (extension == ".csv") {
    collect_csv(read_file(path), collector);
  } else if (extension == ".txt") {
    collect_txt(read_file(path), collector);
  } else {
    reject_labels(fmt::format("{}: unknown kind of label file", path.string()),
                  hint_for_unknown(path, expected_count));
  }
  return collector.take();
}

}  // namespace winnow

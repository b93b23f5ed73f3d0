// Data sets of arrays: the images and labels of read_npz_set().
#include <ATen/ATen.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/data/npz.h"

namespace winnow {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are read as they lie");

constexpr std::int64_t kMostChannels = 16;

[[noreturn]] void reject_array(const std::string& what, const std::string& hint = "") {
  throw Error(ErrorKind::data, what, hint);
}

enum class ChannelAxis { none, first, last };

// Where the channels are: by the shape alone, or as the experiment says.
ChannelAxis channel_axis(const NpyArray& array, const std::string& layout) {
  const std::vector<std::int64_t>& shape = array.shape();
  if (shape.size() == 3) {
    return ChannelAxis::none;
  }
  if (shape.size() == 4 && layout != "auto") {
    const std::int64_t channels = layout == "nchw" ? shape[1] : shape[3];
    if (channels > kMostChannels) {
      reject_array(
          fmt::format("{}: shape {} has {} channels by data.layout = \"{}\", expected at "
                      "most {}",
                      array.name(), array.shape_text(), channels, layout, kMostChannels));
    }
    return layout == "nchw" ? ChannelAxis::first : ChannelAxis::last;
  }
  const auto usual = [](std::int64_t channels) { return channels == 1 || channels == 3; };
  const bool first = shape.size() == 4 && usual(shape[1]);
  const bool last = shape.size() == 4 && usual(shape[3]);
  if (first && last) {
    reject_array(fmt::format("{}: shape {} may have its channels first or last", array.name(),
                             array.shape_text()),
                 "set data.layout to \"nchw\" (first) or \"nhwc\" (last)");
  }
  if (!first && !last) {
    reject_array(fmt::format("{}: shape {}, expected (n, h, w), or (n, h, w, c) or (n, c, h, w) "
                             "with 1 or 3 channels",
                             array.name(), array.shape_text()),
                 shape.size() == 4 ? "for other numbers of channels set data.layout" : "");
  }
  return first ? ChannelAxis::first : ChannelAxis::last;
}

at::Tensor to_planes(const at::Tensor& images, ChannelAxis axis) {
  switch (axis) {
    case ChannelAxis::none:
      return images.unsqueeze(1);
    case ChannelAxis::first:
      return images;
    default:
      return images.permute({0, 3, 1, 2}).contiguous();
  }
}

// The tensor is the array's own bytes: sets are large.
at::Tensor as_bytes(NpyArray array) {
  const auto held = std::make_shared<NpyArray>(std::move(array));
  // They are the tensor's to change from here on: input noise does.
  auto* bytes = const_cast<char*>(held->data().data());  // NOLINT(*-const-cast)
  return at::from_blob(
      bytes, held->shape(), [held](void* /*bytes*/) {}, at::kByte);
}

// Calls `use` with every element in C order. They may lie at any address.
template <typename T, typename Use>
void visit_as(const NpyArray& array, Use use) {
  const std::string_view data = array.data();
  for (std::size_t at = 0; at < data.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, data.data() + at, sizeof(T));
    use(static_cast<double>(value));
  }
}

template <typename Use>
void visit_floats(const NpyArray& array, Use use) {
  switch (array.width()) {
    case 2:
      visit_as<c10::Half>(array, use);
      break;
    case 4:
      visit_as<float>(array, use);
      break;
    default:
      visit_as<double>(array, use);
  }
}

double largest_of(const NpyArray& array) {
  double largest = -std::numeric_limits<double>::infinity();
  visit_floats(array, [&](double value) { largest = std::max(largest, value); });
  return largest;
}

// Floats from 0 to `most` as the nearest of 256 levels.
at::Tensor to_levels(const NpyArray& array, double most) {
  at::Tensor levels = at::empty(array.shape(), at::kByte);
  auto* level = levels.data_ptr<std::uint8_t>();
  const std::size_t per_sample = array.size() / static_cast<std::size_t>(array.shape().front());
  std::size_t at = 0;
  visit_floats(array, [&](double value) {
    if (!(value >= 0.0 && value <= most)) {  // neither does a value that is not a number
      reject_array(fmt::format("{}: sample {} has the value {}, expected 0 to {}", array.name(),
                               at / per_sample, value, most),
                   "save the images as they are before normalisation, from 0 to 1 or 0 to 255");
    }
    level[at++] = static_cast<std::uint8_t>(std::floor(value * (255.0 / most) + 0.5));
  });
  return levels;
}

Labels to_labels(const NpyArray& array, std::int64_t images) {
  const std::vector<std::int64_t>& shape = array.shape();
  const bool column = shape.size() == 2 && shape[1] == 1;
  if (shape.size() != 1 && !column) {
    throw Error(ErrorKind::data, fmt::format("{}: shape {}, expected one label per image: (n, 1)",
                                             array.name(), array.shape_text()));
  }
  if (shape[0] != images) {
    throw Error(ErrorKind::data,
                fmt::format("{}: {} labels, but {} images", array.name(), shape[0], images));
  }
  Labels labels(array.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = array.whole(i);
  }
  return labels;
}

void check_labels(const std::string& path, std::string_view array, const Labels& labels,
                  std::int64_t classes) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= classes) {
      throw Error(ErrorKind::data, fmt::format("{}: {}: label {} of sample {} is outside 0..{}",
                                               path, array, labels[i], i, classes - 1));
    }
  }
}

// The arrays of an archive or of a folder, by name.
ArraySource open_arrays(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    return [path](const std::string& name) { return read_npy(path / (name + ".npy")); };
  }
  return [file = NpzFile(path)](const std::string& name) { return file.array(name); };
}

// The two image arrays, brought to bytes by one rule.
class ImageArrays {
 public:
  ImageArrays(NpyArray train, NpyArray test, const ArrayOptions& options) : ImageArrays(options) {
    const double train_most = most_of(train, options.float_range);
    const double test_most = most_of(test, options.float_range);
    if (train_most != test_most && is_float(train) && is_float(test)) {
      reject_array(fmt::format("{} go from 0 to {}, but {} from 0 to {}", train.name(), train_most,
                               test.name(), test_most),
                   "bring both to one range, or set data.float_range to \"0..1\" or \"0..255\"");
    }
    this->train = to_images(std::move(train), train_most);
    this->test = to_images(std::move(test), test_most);
  }

  explicit ImageArrays(const ArrayOptions& options) : layout_(options.layout) {}

  at::Tensor read(NpyArray array, const std::string& range) const {
    const double most = most_of(array, range);
    return to_images(std::move(array), most);
  }

  at::Tensor train;
  at::Tensor test;

 private:
  static bool is_float(const NpyArray& array) { return array.kind() == NpyArray::Kind::real; }

  // The value of white. The rule for floats whose range is not given: see read_npz_set().
  static double most_of(const NpyArray& array, const std::string& range) {
    if (!is_float(array) || range == "0..255") {
      return 255.0;
    }
    const double largest = range == "0..1" ? 1.0 : largest_of(array);
    if (largest > 1.0 && largest < 2.0) {
      reject_array(fmt::format("{}: the largest value is {}: neither 0..1 nor 0..255 is plain",
                               array.name(), largest),
                   "clip the images to 0..1, or set data.float_range to \"0..255\"");
    }
    return largest <= 1.0 ? 1.0 : 255.0;
  }

  at::Tensor to_images(NpyArray array, double most) const {
    if (array.size() == 0) {
      reject_array(fmt::format("{}: shape {} holds nothing", array.name(), array.shape_text()));
    }
    const ChannelAxis axis = channel_axis(array, layout_);
    if (is_float(array)) {
      return to_planes(to_levels(array, most), axis);
    }
    if (array.kind() != NpyArray::Kind::unsigned_whole || array.width() != 1) {
      reject_array(fmt::format("{}: expected images of dtype |u1, <f2, <f4 or <f8", array.name()),
                   "save images.astype(numpy.uint8)");
    }
    return to_planes(as_bytes(std::move(array)), axis);
  }

  std::string layout_;
};

}  // namespace

at::Tensor read_array_images(NpyArray array, const ArrayOptions& options) {
  return ImageArrays(options).read(std::move(array), options.float_range);
}

Labels read_array_labels(const NpyArray& array, std::int64_t images, std::int64_t classes) {
  Labels labels = to_labels(array, images);
  const std::int64_t known = classes > 0 ? classes : kMostClasses;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= known) {
      throw Error(ErrorKind::data, fmt::format("{}: label {} of sample {} is outside 0..{}",
                                               array.name(), labels[i], i, known - 1));
    }
  }
  return labels;
}

DataSet read_array_set(const ArraySource& array, const ArrayNames& names, const std::string& where,
                       std::int64_t classes, const ArrayOptions& options) {
  ImageArrays images(array(names.train_images), array(names.test_images), options);
  DataSet set;
  set.train.images = std::move(images.train);
  set.test.images = std::move(images.test);
  set.train.labels = to_labels(array(names.train_labels), set.train.images.size(0));
  set.test.labels = to_labels(array(names.test_labels), set.test.images.size(0));
  set.classes = classes;
  if (classes == 0) {
    check_labels(where, names.train_labels, set.train.labels, kMostClasses);
    check_labels(where, names.test_labels, set.test.labels, kMostClasses);
    set.classes =
        1 + std::max(std::ranges::max(set.train.labels), std::ranges::max(set.test.labels));
  }
  check_labels(where, names.train_labels, set.train.labels, set.classes);
  check_labels(where, names.test_labels, set.test.labels, set.classes);
  for (std::int64_t i = 0; i < set.classes; ++i) {
    set.class_names.push_back(std::to_string(i));
  }
  return set;
}

DataSet read_npz_set(const std::filesystem::path& path, std::int64_t classes,
                     const ArrayOptions& options) {
  return read_array_set(open_arrays(path), {}, path.string(), classes, options);
}

}  // namespace winnow

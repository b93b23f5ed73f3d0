#include "winnow/model/safetensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/json.h"

namespace winnow {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are stored as they lie in memory");

// What is written is sorted by name; a search for every name in an ordered object would take long.
using Header = nlohmann::json;

constexpr const char* kHint =
    "the file is damaged or is not a safetensors file of ours; fetch or save it again";

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // as in the reference implementation
constexpr std::size_t kHighestRank = 16;

struct Dtype {
  std::string_view name;
  at::ScalarType type;
  std::uint64_t bytes;
};

// Widest first, so that in files of ours every tensor is aligned.
constexpr std::array<Dtype, 7> kDtypes{{{"F64", at::kDouble, 8},
                                        {"I64", at::kLong, 8},
                                        {"F32", at::kFloat, 4},
                                        {"I32", at::kInt, 4},
                                        {"F16", at::kHalf, 2},
                                        {"BF16", at::kBFloat16, 2},
                                        {"U8", at::kByte, 1}}};

// One file being read; every fault ends in `fail`.
class Reader {
 public:
  Reader(std::string_view bytes, const std::string& source) : bytes_(bytes), source_(source) {}

  TensorFile read() {
    const Json header = parse(take_header());
    TensorFile file;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        file.metadata = read_metadata(value);
      } else {
        entries_.push_back(read_entry(name, value));
      }
    }
    check_cover();
    for (const Entry& entry : entries_) {
      file.tensors.emplace(entry.name, read_tensor(entry));
    }
    return file;
  }

 private:
  struct Entry {
    std::string name;
    const Dtype* dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t begin;
    std::uint64_t end;
  };

  [[noreturn]] void fail(const std::string& fault) const {
    throw Error(ErrorKind::data, fmt::format("{}: {}", source_, fault), kHint);
  }

  // Splits the bytes into the header, which is returned, and data_.
  std::string_view take_header() {
    if (bytes_.size() < kLengthBytes) {
      fail(fmt::format("it has {} bytes, too few for a safetensors file", bytes_.size()));
    }
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    const std::uint64_t rest = bytes_.size() - kLengthBytes;
    if (length > rest) {
      fail(fmt::format("its header claims {} bytes, but only {} follow", length, rest));
    }
    if (length > kLongestHeader) {
      fail(fmt::format("its header of {} bytes is longer than the {} allowed", length,
                       kLongestHeader));
    }
    data_ = bytes_.substr(kLengthBytes + length);
    return bytes_.substr(kLengthBytes, length);
  }

  Json parse(std::string_view text) const {
    Json header = parse_json(text, source_ + ": its header", ErrorKind::data, kHint);
    if (!header.is_object()) {
      fail("its header is not a JSON object");
    }
    return header;
  }

  Metadata read_metadata(const Json& value) const {
    if (!value.is_object()) {
      fail("__metadata__ is not a map of strings");
    }
    Metadata metadata;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) {
        fail(fmt::format("__metadata__ has a value for {} that is not a string", quoted_name(key)));
      }
      metadata.emplace(key, text.get<std::string>());
    }
    return metadata;
  }

  Entry read_entry(const std::string& name, const Json& value) const {
    const std::string tensor = "tensor " + quoted_name(name);
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
        !value.contains("shape") || !value.contains("data_offsets")) {
      fail(tensor + " does not have exactly dtype, shape and data_offsets");
    }
    Entry entry{name, nullptr, {}, 0, 0};
    entry.dtype = read_dtype(value["dtype"], tensor);
    const std::uint64_t size = read_shape(value["shape"], tensor, entry);
    const Json& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      fail(tensor + ": data_offsets must be two whole numbers");
    }
    entry.begin = offsets[0].get<std::uint64_t>();
    entry.end = offsets[1].get<std::uint64_t>();
    if (entry.begin > entry.end || entry.end > data_.size()) {
      fail(fmt::format("{}: data_offsets {} to {} lie outside of the {} bytes of data", tensor,
                       entry.begin, entry.end, data_.size()));
    }
    if (entry.end - entry.begin != size) {
      fail(fmt::format("{}: {} {} takes {} bytes, but data_offsets give it {}", tensor,
                       entry.dtype->name, entry.shape, size, entry.end - entry.begin));
    }
    return entry;
  }

  const Dtype* read_dtype(const Json& value, const std::string& tensor) const {
    const auto* found = value.is_string()
                            ? std::ranges::find(kDtypes, value.get<std::string>(), &Dtype::name)
                            : kDtypes.end();
    if (found == kDtypes.end()) {
      const std::string shown = value.is_string() ? quoted_name(value.get<std::string>()) : "this";
      fail(fmt::format("{}: dtype {} is not one of F64, I64, F32, I32, F16, BF16, U8", tensor,
                       shown));
    }
    return found;
  }

  // Fills the entry's shape and returns its size in bytes.
  std::uint64_t read_shape(const Json& value, const std::string& tensor, Entry& entry) const {
    if (!value.is_array() || value.size() > kHighestRank) {
      fail(fmt::format("{}: shape must be a list of at most {} numbers", tensor, kHighestRank));
    }
    constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    std::uint64_t bound = entry.dtype->bytes;  // zero extents count as one: strides must fit, too
    bool empty = false;
    for (const Json& extent : value) {
      if (!extent.is_number_unsigned()) {
        fail(tensor + ": shape must be whole numbers");
      }
      const auto size = extent.get<std::uint64_t>();
      empty = empty || size == 0;
      if (size > kLargest / bound) {
        fail(tensor + ": its shape is too large");
      }
      bound *= std::max<std::uint64_t>(size, 1);
      entry.shape.push_back(static_cast<std::int64_t>(size));
    }
    return empty ? 0 : bound;
  }

  // Every byte of data belongs to exactly one tensor.
  void check_cover() const {
    std::vector<const Entry*> order;
    order.reserve(entries_.size());
    for (const Entry& entry : entries_) {
      order.push_back(&entry);
    }
    std::ranges::sort(order, {},
                      [](const Entry* entry) { return std::pair(entry->begin, entry->end); });
    std::uint64_t position = 0;
    for (const Entry* entry : order) {
      if (entry->begin != position) {
        fail(fmt::format("tensor {} {}", quoted_name(entry->name),
                         entry->begin < position ? "overlaps another one"
                                                 : "follows bytes that belong to no tensor"));
      }
      position = entry->end;
    }
    if (position != data_.size()) {
      fail(fmt::format("{} bytes at its end belong to no tensor", data_.size() - position));
    }
  }

  at::Tensor read_tensor(const Entry& entry) const {
    at::Tensor tensor = at::empty(entry.shape, at::device(at::kCPU).dtype(entry.dtype->type));
    if (entry.end > entry.begin) {
      std::memcpy(tensor.data_ptr(), data_.data() + entry.begin, entry.end - entry.begin);
    }
    return tensor;
  }

  std::string_view bytes_;
  const std::string& source_;
  std::string_view data_;
  std::vector<Entry> entries_;
};

// A tensor on its way into a file.
struct Outgoing {
  const std::string* name;
  const Dtype* dtype;
  at::Tensor tensor;
  std::size_t bytes;

  std::string_view view() const {
    return bytes == 0 ? std::string_view()
                      : std::string_view(static_cast<const char*>(tensor.data_ptr()), bytes);
  }
};

std::vector<Outgoing> outgoing(const TensorFile& file) {
  std::vector<Outgoing> items;
  items.reserve(file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) {
    const auto* dtype = std::ranges::find(kDtypes, tensor.scalar_type(), &Dtype::type);
    if (dtype == kDtypes.end() || name == kMetadata) {
      throw Error(ErrorKind::internal,
                  fmt::format("tensor {} of type {} cannot be saved as safetensors",
                              quoted_name(name), at::toString(tensor.scalar_type())));
    }
    items.push_back({&name, dtype, tensor.to(at::kCPU).contiguous(), tensor.nbytes()});
  }
  std::ranges::stable_sort(items, {}, &Outgoing::dtype);
  return items;
}

// Everything before the tensors' bytes. A header that the reader would refuse is not made.
std::string start_of(const TensorFile& file, const std::vector<Outgoing>& items) {
  Header header = Header::object();
  if (!file.metadata.empty()) {
    header[std::string(kMetadata)] = file.metadata;
  }
  std::size_t total = 0;
  for (const Outgoing& item : items) {
    header[*item.name] = {{"dtype", item.dtype->name},
                          {"shape", item.tensor.sizes().vec()},
                          {"data_offsets", {total, total + item.bytes}}};
    total += item.bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Header::exception& error) {
    throw Error(ErrorKind::internal,
                fmt::format("names and metadata of tensors must be UTF-8: {}", error.what()));
  }
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  if (text.size() > kLongestHeader) {
    throw Error(ErrorKind::run,
                fmt::format("a header of {} bytes is longer than the {} that a safetensors file "
                            "may have",
                            text.size(), kLongestHeader),
                "it names too many tensors: nothing was written");
  }
  const std::uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text;
}

}  // namespace

std::string quoted_name(const std::string& name) {
  constexpr std::size_t kLongest = 100;
  const std::string shown = name.size() <= kLongest ? name : name.substr(0, kLongest) + "...";
  return Header(shown).dump(-1, ' ', true, Header::error_handler_t::replace);
}

std::string_view dtype_name(at::ScalarType type) {
  return std::ranges::find(kDtypes, type, &Dtype::type)->name;
}

std::string encode_tensors(const TensorFile& file) {
  const std::vector<Outgoing> items = outgoing(file);
  std::string bytes = start_of(file, items);
  std::size_t total = bytes.size();
  for (const Outgoing& item : items) {
    total += item.bytes;
  }
  bytes.reserve(total);
  for (const Outgoing& item : items) {
    bytes += item.view();
  }
  return bytes;
}

TensorFile decode_tensors(std::string_view bytes, const std::string& source) {
  return Reader(bytes, source).read();
}

void save_tensors(const std::filesystem::path& path, const TensorFile& file) {
  const std::vector<Outgoing> items = outgoing(file);
  const std::string start = start_of(file, items);
  WholeFile whole(path);
  whole.write(start);
  for (const Outgoing& item : items) {
    whole.write(item.view());
  }
  whole.commit();
}

TensorFile load_tensors(const std::filesystem::path& path) {
  return decode_tensors(read_file(path), path.string());
}

void save_state(const std::filesystem::path& path, const State& state, const Metadata& metadata) {
  const State host = state.to(at::kCPU);
  TensorFile file{{}, metadata};
  for (const Slot& slot : host.layout->slots()) {
    const at::Tensor view = host.view(slot);
    file.tensors.emplace(slot.name,
                         slot.kind == SlotKind::counter ? view.round().to(at::kLong) : view);
  }
  save_tensors(path, file);
}

State load_state(const std::filesystem::path& path, LayoutPtr layout) {
  const TensorFile file = load_tensors(path);
  const auto fail = [&](const std::string& fault) {
    throw Error(ErrorKind::data, fmt::format("{}: {}", path.string(), fault),
                "it holds another model, or this one for another data set");
  };
  State state = State::zeros(std::move(layout));
  std::unordered_set<std::string_view> known;
  for (const Slot& slot : state.layout->slots()) {
    known.insert(slot.name);
    const auto found = file.tensors.find(slot.name);
    if (found == file.tensors.end()) {
      fail(fmt::format("tensor {} is missing", quoted_name(slot.name)));
    }
    const at::Tensor& tensor = found->second;
    const at::ScalarType type = slot.kind == SlotKind::counter ? at::kLong : at::kFloat;
    if (tensor.sizes() != slot.shape || tensor.scalar_type() != type) {
      fail(fmt::format("tensor {} is {} {}, expected {} {}", quoted_name(slot.name),
                       dtype_name(tensor.scalar_type()), tensor.sizes().vec(), dtype_name(type),
                       slot.shape));
    }
    state.view(slot).copy_(tensor);
  }
  for (const auto& [name, tensor] : file.tensors) {
    if (!known.contains(name)) {
      fail(fmt::format("tensor {} is unknown to the model", quoted_name(name)));
    }
  }
  return state;
}

}  // namespace winnow

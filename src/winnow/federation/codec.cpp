#include "winnow/federation/codec.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/sha256.h"
#include "winnow/federation/firewall.h"

namespace winnow {
namespace {

static_assert(std::endian::native == std::endian::little, "parcels are little-endian");

// A head: "WN1", direction u8, number of the exchange u16, then the fields: numbers as they are, a
// list as u32 count and its values, a model as u16 place in the parcel's models, a list of models
// as u32 count and a place each.
constexpr std::string_view kMagic = "WN1";
constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kMostModels = 65535;

enum class Direction : std::uint8_t { task, reply };

// The digits of a digest as half as many bytes.
std::string to_raw(const std::string& digits) {
  std::string raw;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    const auto nibble = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
    raw.push_back(static_cast<char>(nibble(digits[i]) * 16 + nibble(digits[i + 1])));
  }
  return raw;
}

std::string to_digits(std::string_view raw) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  for (const char byte : raw) {
    const auto value = static_cast<unsigned char>(byte);
    digits += kDigits[value >> 4U];
    digits += kDigits[value & 15U];
  }
  return digits;
}

template <typename T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Bytes from outside, taken from the front.
class ParcelReader {
 public:
  ParcelReader(std::string_view bytes, std::string what) : rest_(bytes), what_(std::move(what)) {}

  [[noreturn]] void refuse(const std::string& why, Reason reason = Reason::wrong_fields) const {
    throw Misfit(reason, fmt::format("{}: {}", what_, why));
  }
  std::string_view take(std::uint64_t count, const std::string& name) {
    if (count > rest_.size()) {
      refuse(fmt::format("{} needs {} bytes, there are {}", name, count, rest_.size()));
    }
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(count));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  template <typename T>
  T number(const std::string& name) {
    T value;
    std::memcpy(&value, take(sizeof value, name).data(), sizeof value);
    return value;
  }
  // Allocated only once the bytes are seen to be there.
  template <typename T>
  std::vector<T> list(std::uint64_t count, const std::string& name) {
    const std::string_view bytes = take(count * sizeof(T), name);
    std::vector<T> values(static_cast<std::size_t>(count));
    std::ranges::copy(bytes, reinterpret_cast<char*>(values.data()));
    return values;
  }
  void finish() const {
    if (!rest_.empty()) {
      refuse(fmt::format("{} bytes too many", rest_.size()));
    }
  }

 private:
  std::string_view rest_;
  std::string what_;
};

std::int64_t most_of(const Length& length, std::int64_t samples) {
  return length.most == Length::kSamples ? samples : length.most;
}

// The models of a parcel that is being made, each once.
class ModelTable {
 public:
  ModelTable(std::vector<PackedModel>& models, const Holds& holds, const DigestOf& digest_of)
      : models_(models), holds_(holds), digest_of_(digest_of) {}

  std::uint16_t place_of(const State& state) {
    std::string digest = digest_of_ ? digest_of_(state) : hash(state);
    const std::string layout = state.layout->digest();
    const auto same = std::ranges::find_if(models_, [&](const PackedModel& model) {
      return model.digest == digest && model.layout == layout;
    });
    if (same != models_.end()) {
      return static_cast<std::uint16_t>(same - models_.begin());
    }
    if (models_.size() == kMostModels) {
      throw Error(ErrorKind::peer, fmt::format("a message of more than {} models", kMostModels));
    }
    PackedModel packed{std::move(digest), layout};
    if (!holds_ || !holds_(packed.digest)) {
      const at::Tensor host = state.flat.to(at::kCPU).contiguous();
      packed.values.assign(reinterpret_cast<const char*>(host.data_ptr<float>()),
                           static_cast<std::size_t>(host.numel()) * sizeof(float));
    }
    models_.push_back(std::move(packed));
    return static_cast<std::uint16_t>(models_.size() - 1);
  }

 private:
  std::vector<PackedModel>& models_;
  const Holds& holds_;
  const DigestOf& digest_of_;
};

template <typename T>
void put_list(std::string& head, const std::vector<T>& values) {
  put(head, static_cast<std::uint32_t>(values.size()));
  head.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

struct FieldWriter {
  std::string& head;
  ModelTable& models;

  void operator()(std::uint8_t value) const { put(head, value); }
  void operator()(std::uint32_t value) const { put(head, value); }
  void operator()(std::uint64_t value) const { put(head, value); }
  void operator()(double value) const { put(head, value); }
  void operator()(const std::vector<double>& values) const { put_list(head, values); }
  void operator()(const std::vector<float>& values) const { put_list(head, values); }
  void operator()(const State& state) const { put(head, models.place_of(state)); }
  void operator()(const std::vector<State>& states) const {
    put(head, static_cast<std::uint32_t>(states.size()));
    for (const State& state : states) {
      put(head, models.place_of(state));
    }
  }
};

std::uint16_t number_of(const std::string& task, const std::vector<Exchange>& exchanges) {
  return static_cast<std::uint16_t>(&exchange_of(task, exchanges) - exchanges.data());
}

Parcel pack(const Message& message, Direction direction, std::uint16_t exchange, const Holds& holds,
            const DigestOf& digest_of) {
  Parcel parcel{std::string(kMagic)};
  ModelTable models(parcel.models, holds, digest_of);
  put(parcel.head, direction);
  put(parcel.head, exchange);
  for (const auto& [name, field] : message.fields()) {
    std::visit(FieldWriter{parcel.head, models}, field);
  }
  return parcel;
}

// The models of a parcel that is being read; every one must be asked for.
class ModelShelf {
 public:
  ModelShelf(const std::vector<PackedModel>& models, const Known& known)
      : models_(models), known_(known) {}

  State get(std::uint16_t place, const ParcelReader& reader, const std::string& name) {
    if (place >= models_.size()) {
      reader.refuse(fmt::format("{} is model {}, there are {}", name, place, models_.size()));
    }
    used_.insert(place);
    const PackedModel& packed = models_[place];
    const auto layout = std::ranges::find_if(
        known_.layouts, [&](const LayoutPtr& known) { return known->digest() == packed.layout; });
    if (layout == known_.layouts.end()) {
      reader.refuse(fmt::format("{} has the layout of another network", name),
                    Reason::wrong_layout);
    }
    return packed.values.empty() && (*layout)->total() > 0 ? held(packed, *layout, reader, name)
                                                           : read(packed, *layout, reader, name);
  }
  void finish(const ParcelReader& reader) const {
    if (used_.size() != models_.size()) {
      reader.refuse(
          fmt::format("{} models, of which {} belong to a field", models_.size(), used_.size()));
    }
  }

 private:
  State held(const PackedModel& packed, const LayoutPtr& layout, const ParcelReader& reader,
             const std::string& name) const {
    const std::optional<State> found = known_.model ? known_.model(packed.digest) : std::nullopt;
    if (!found || !(*found->layout == *layout)) {
      reader.refuse(fmt::format("{} is a model that is not held here", name));
    }
    return *found;
  }
  static State read(const PackedModel& packed, const LayoutPtr& layout, const ParcelReader& reader,
                    const std::string& name) {
    const auto bytes = static_cast<std::size_t>(layout->total()) * sizeof(float);
    if (packed.values.size() != bytes) {
      reader.refuse(fmt::format("{} has {} bytes, expected {}", name, packed.values.size(), bytes),
                    Reason::wrong_length);
    }
    State state{layout, at::empty({layout->total()}, at::kFloat)};
    std::memcpy(state.flat.data_ptr<float>(), packed.values.data(), bytes);
    if (hash(state) != packed.digest) {
      reader.refuse(fmt::format("{} was changed on the way: its digest differs", name));
    }
    return state;
  }

  const std::vector<PackedModel>& models_;
  const Known& known_;
  std::set<std::uint16_t> used_;
};

Field read_field(ParcelReader& reader, const FieldRule& rule, ModelShelf& shelf,
                 std::int64_t samples) {
  const std::string name = fmt::format("field '{}'", rule.name);
  const auto count = [&] {
    const auto told = static_cast<std::int64_t>(reader.number<std::uint32_t>(name));
    const std::int64_t most = most_of(rule.length, samples);
    if (told < rule.length.least || told > most) {
      reader.refuse(
          fmt::format("{} has {} values, expected {}", name, told,
                      rule.length.least == most ? fmt::format("{}", most)
                                                : fmt::format("{} to {}", rule.length.least, most)),
          Reason::wrong_length);
    }
    return static_cast<std::uint64_t>(told);
  };
  switch (rule.type) {
    case FieldType::u8:
      return reader.number<std::uint8_t>(name);
    case FieldType::u32:
      return reader.number<std::uint32_t>(name);
    case FieldType::u64:
      return reader.number<std::uint64_t>(name);
    case FieldType::f64:
      return reader.number<double>(name);
    case FieldType::f64s:
      return reader.list<double>(count(), name);
    case FieldType::f32s:
      return reader.list<float>(count(), name);
    case FieldType::state:
      return shelf.get(reader.number<std::uint16_t>(name), reader, name);
    case FieldType::states:
      break;
  }
  std::vector<State> states;
  for (const std::uint16_t place : reader.list<std::uint16_t>(count(), name)) {
    states.push_back(shelf.get(place, reader, name));
  }
  return states;
}

// The number of the exchange.
std::uint16_t read_start(ParcelReader& reader, Direction expected, std::size_t exchanges) {
  if (reader.take(kMagic.size(), "the start") != kMagic) {
    reader.refuse("it does not begin with WN1", Reason::wrong_kind);
  }
  if (reader.number<std::uint8_t>("the direction") != static_cast<std::uint8_t>(expected)) {
    reader.refuse(expected == Direction::task ? "it is no task" : "it is no reply",
                  Reason::wrong_kind);
  }
  const auto number = reader.number<std::uint16_t>("the exchange");
  if (number >= exchanges) {
    reader.refuse(fmt::format("it is of exchange {}, there are {}", number, exchanges),
                  Reason::wrong_kind);
  }
  return number;
}

Message read_fields(ParcelReader reader, const std::string& kind,
                    const std::vector<FieldRule>& rules, const Parcel& parcel, const Known& known) {
  ModelShelf shelf(parcel.models, known);
  Message message(kind);
  for (const FieldRule& rule : rules) {
    message.set(rule.name, read_field(reader, rule, shelf, known.samples));
  }
  reader.finish();
  shelf.finish(reader);
  return message;
}

}  // namespace

Parcel pack_task(const Message& task, const std::vector<Exchange>& exchanges, const Holds& holds,
                 const DigestOf& digest_of) {
  check_task(task, exchanges);
  return pack(task, Direction::task, number_of(task.kind(), exchanges), holds, digest_of);
}

Parcel pack_reply(const Message& reply, const std::string& task,
                  const std::vector<Exchange>& exchanges, const Holds& holds,
                  const DigestOf& digest_of) {
  check_reply(reply, Message(task), exchanges);
  return pack(reply, Direction::reply, number_of(task, exchanges), holds, digest_of);
}

Message unpack_task(const Parcel& parcel, const std::vector<Exchange>& exchanges,
                    const Known& known) {
  ParcelReader reader(parcel.head, "a task");
  const Exchange& exchange = exchanges[read_start(reader, Direction::task, exchanges.size())];
  return read_fields(reader, exchange.task, exchange.asks, parcel, known);
}

Message unpack_reply(const Parcel& parcel, const std::string& task,
                     const std::vector<Exchange>& exchanges, const Known& known) {
  const Exchange& exchange = exchange_of(task, exchanges);
  ParcelReader reader(parcel.head, fmt::format("a reply to '{}'", task));
  const std::uint16_t number = read_start(reader, Direction::reply, exchanges.size());
  if (number != number_of(task, exchanges)) {
    reader.refuse(fmt::format("it answers '{}'", exchanges[number].task), Reason::wrong_kind);
  }
  return read_fields(reader, exchange.reply, exchange.answers, parcel, known);
}

// The head with its length u32, the number of models u16, and each with its digest, its layout's
// digest and its values with their length u64.
std::string bytes_of(const Parcel& parcel) {
  std::string bytes;
  put(bytes, static_cast<std::uint32_t>(parcel.head.size()));
  bytes += parcel.head;
  put(bytes, static_cast<std::uint16_t>(parcel.models.size()));
  for (const PackedModel& model : parcel.models) {
    bytes += to_raw(model.digest);
    bytes += to_raw(model.layout);
    put(bytes, static_cast<std::uint64_t>(model.values.size()));
    bytes += model.values;
  }
  return bytes;
}

Parcel parcel_of(std::string_view bytes) {
  ParcelReader reader(bytes, "a parcel");
  Parcel parcel{
      std::string(reader.take(reader.number<std::uint32_t>("the length of the head"), "the head"))};
  const auto count = reader.number<std::uint16_t>("the number of models");
  for (std::uint16_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("model {}", i);
    PackedModel model{to_digits(reader.take(kDigestBytes, name)),
                      to_digits(reader.take(kDigestBytes, name))};
    model.values = reader.take(reader.number<std::uint64_t>(name), name);
    parcel.models.push_back(std::move(model));
  }
  reader.finish();
  return parcel;
}

}  // namespace winnow

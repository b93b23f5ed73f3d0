#include "winnow/run/tensorboard.h"

#include <array>
#include <bit>
#include <concepts>
#include <utility>

namespace winnow {
namespace {

constexpr std::array<const char*, 15> kTags{
    "accuracy",     "loss",         "train_loss",      "participations",  "bytes_up",
    "bytes_down",   "client_steps", "forward_passes",  "backward_passes", "label_precision",
    "label_recall", "top5",         "macro_precision", "macro_recall",    "macro_f1"};

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78U : 0U);
    }
    table[byte] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

// Checksums stored beside what they are of are masked, so that checksums of records that hold
// records stay sound.
std::uint32_t masked(std::uint32_t crc) {
  return std::rotr(crc, 15) + 0xA282EAD8U;
}

template <std::unsigned_integral T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t byte = 0; byte < sizeof(T); ++byte) {
    bytes += static_cast<char>(static_cast<std::uint8_t>(value >> (8 * byte)));
  }
  return bytes;
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>(static_cast<std::uint8_t>(value | 0x80));
  }
  bytes += static_cast<char>(static_cast<std::uint8_t>(value));
  return bytes;
}

// Fields of a protocol buffer: the key is the field's number and the form of what follows.
std::string key(std::uint64_t number, std::uint64_t form) {
  return varint(number << 3 | form);
}
std::string whole_number(std::uint64_t number, std::uint64_t value) {
  return key(number, 0) + varint(value);
}
std::string float64(std::uint64_t number, double value) {
  return key(number, 1) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string float32(std::uint64_t number, float value) {
  return key(number, 5) + little_endian(std::bit_cast<std::uint32_t>(value));
}
std::string bytes(std::uint64_t number, std::string_view value) {
  return key(number, 2) + varint(value.size()) + std::string(value);
}

// Event: wall_time 1, step 2, file_version 3, summary 5. Summary: value 1, of tag 1 and
// simple_value 2.
std::string summary_value(std::string_view tag, double value) {
  return bytes(1, bytes(1, tag) + float32(2, static_cast<float>(value)));
}

// The scalar called `name` of a JSON object, if it is one, as a value of the summary.
std::string value_in(const Json& json, const char* name, std::string_view tag) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? summary_value(tag, found->get<double>()) : "";
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    crc = kTable[(crc ^ static_cast<std::uint8_t>(byte)) & 0xFFU] ^ (crc >> 8);
  }
  return ~crc;
}

std::string tensorboard_record(std::string_view payload) {
  const std::string length = little_endian(std::uint64_t{payload.size()});
  return length + little_endian(masked(crc32c(length))) + std::string(payload) +
         little_endian(masked(crc32c(payload)));
}

std::string tensorboard_header() {
  return tensorboard_record(float64(1, 0.0) + bytes(3, "brain.Event:2"));
}

std::string tensorboard_round(const Json& round) {
  std::string summary;
  for (const char* tag : kTags) {
    summary += value_in(round, tag, tag);
  }
  if (const auto detection = round.find("detection");
      detection != round.end() && detection->is_object()) {
    summary += value_in(*detection, "flag_precision", "flag_precision");
    summary += value_in(*detection, "flag_recall", "flag_recall");
  }
  return tensorboard_record(float64(1, round.at("seconds").get<double>()) +
                            whole_number(2, round.at("round").get<std::uint64_t>()) +
                            bytes(5, summary));
}

TensorBoardWriter::TensorBoardWriter(std::filesystem::path path, const std::vector<Json>& rounds)
    : file_(std::move(path), 0) {
  std::string text = tensorboard_header();
  for (const Json& round : rounds) {
    text += tensorboard_round(round);
  }
  file_.write(text);
}

void TensorBoardWriter::add(const Json& round) {
  file_.write(tensorboard_round(round));
}

}  // namespace winnow

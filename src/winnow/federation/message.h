// Tasks and replies: the only things that cross the boundary between server and client. A message
// is a kind and named, typed fields. In process it is passed by pointer (a model state is shared,
// not copied); its payload size is what a wire would carry, so communication is measured, not
// assumed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "winnow/model/state.h"

namespace winnow {

// The types a field may have, with their size on a wire: u8 1 byte, u32 4, u64 and f64 8, a list of
// f64 8 each and of f32 4 each, a model state 4 per value, a list of states the sum.
using Field = std::variant<std::uint8_t, std::uint32_t, std::uint64_t, double, std::vector<double>,
                           std::vector<float>, State, std::vector<State>>;

enum class FieldType { u8, u32, u64, f64, f64s, f32s, state, states };

class Message {
 public:
  explicit Message(std::string kind) : kind_(std::move(kind)) {}

  const std::string& kind() const { return kind_; }
  // The same fields under another kind.
  [[nodiscard]] Message renamed(std::string kind) const;
  Message& set(std::string name, Field value);

  // The field of that name and type; throws Error(kind peer) when it is missing or of another type.
  template <typename T>
  const T& get(std::string_view name) const {
    const T* value = std::get_if<T>(&field(name));
    if (value == nullptr) {
      wrong_type(name);
    }
    return *value;
  }
  bool has(std::string_view name) const;

  // Payload in bytes, without framing and names, which both sides know from the exchange.
  std::int64_t bytes() const;

  const std::vector<std::pair<std::string, Field>>& fields() const { return fields_; }

 private:
  const Field& field(std::string_view name) const;
  [[noreturn]] void wrong_type(std::string_view name) const;

  std::string kind_;
  std::vector<std::pair<std::string, Field>> fields_;
};

// The round that a task is of, which travels as a u32 "round".
inline std::int64_t round_of(const Message& task) {
  return task.get<std::uint32_t>("round");
}

}  // namespace winnow

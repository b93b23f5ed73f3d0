#include "winnow/federation/message.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"

namespace winnow {
namespace {

std::int64_t field_bytes(const Field& field) {
  struct Size {
    std::int64_t operator()(std::uint8_t) const { return 1; }
    std::int64_t operator()(std::uint32_t) const { return 4; }
    std::int64_t operator()(std::uint64_t) const { return 8; }
    std::int64_t operator()(double) const { return 8; }
    std::int64_t operator()(const std::vector<double>& values) const {
      return 8 * std::ssize(values);
    }
    std::int64_t operator()(const std::vector<float>& values) const {
      return 4 * std::ssize(values);
    }
    std::int64_t operator()(const State& state) const { return state.bytes(); }
    std::int64_t operator()(const std::vector<State>& states) const {
      std::int64_t sum = 0;
      for (const State& state : states) {
        sum += state.bytes();
      }
      return sum;
    }
  };
  return std::visit(Size{}, field);
}

}  // namespace

Message& Message::set(std::string name, Field value) {
  fields_.emplace_back(std::move(name), std::move(value));
  return *this;
}

Message Message::renamed(std::string kind) const {
  Message message(std::move(kind));
  message.fields_ = fields_;
  return message;
}

bool Message::has(std::string_view name) const {
  return std::ranges::any_of(fields_, [&](const auto& entry) { return entry.first == name; });
}

const Field& Message::field(std::string_view name) const {
  for (const auto& [known, value] : fields_) {
    if (known == name) {
      return value;
    }
  }
  throw Error(ErrorKind::peer, fmt::format("message '{}' has no field '{}'", kind_, name));
}

void Message::wrong_type(std::string_view name) const {
  throw Error(ErrorKind::peer,
              fmt::format("message '{}': field '{}' has another type than expected", kind_, name));
}

std::int64_t Message::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [name, value] : fields_) {
    sum += field_bytes(value);
  }
  return sum;
}

}  // namespace winnow

// JSON out of a file that may be damaged or forged: every read says what it expects.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "winnow/base/json.h"

namespace winnow {

// A value inside a JSON tree with the name that messages call it by. Reads throw Error(kind run)
// "NAME = VALUE: expected ..." for what is of another type or out of range. Refers to the tree.
class CheckedJson {
 public:
  CheckedJson(const Json& json, std::string name) : json_(&json), name_(std::move(name)) {}

  const Json& json() const { return *json_; }
  const std::string& name() const { return name_; }
  bool is_null() const { return json_->is_null(); }

  // The value of a key of an object.
  CheckedJson at(std::string_view key) const;
  std::optional<CheckedJson> find(std::string_view key) const;  // nothing when there is none
  // All of an object or of a list, in order.
  std::vector<std::pair<std::string, CheckedJson>> members() const;
  std::vector<CheckedJson> elements() const;

  // Finite, and between the two, both included.
  double number(double low = std::numeric_limits<double>::lowest(),
                double high = std::numeric_limits<double>::max()) const;
  std::int64_t whole(std::int64_t low, std::int64_t high) const;
  std::int64_t count() const { return whole(0, kMost); }
  std::uint64_t seed() const;  // any of 64 bits
  bool truth() const;
  std::string text() const;

  // Beyond every number of rounds, bytes or steps, and far from an overflow when one is added.
  static constexpr std::int64_t kMost = std::int64_t{1} << 53;

 private:
  [[noreturn]] void refuse(const std::string& expected) const;
  std::string name_of(std::string_view key) const;

  const Json* json_;
  std::string name_;
};

}  // namespace winnow

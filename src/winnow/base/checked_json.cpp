#include "winnow/base/checked_json.h"

#include <fmt/format.h>

#include <cmath>

#include "winnow/base/error.h"

namespace winnow {
namespace {

std::string shown_value(const Json& value) {
  if (value.is_object()) {
    return "{...}";
  }
  if (value.is_array()) {
    return "[...]";
  }
  constexpr std::size_t kLongest = 100;
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

// As it may safely appear in a message, whatever a file calls its keys.
std::string shown_key(std::string_view key) {
  const std::string text = shown_value(Json(std::string(key)));
  return text.substr(1, text.size() - 2);
}

}  // namespace

void CheckedJson::refuse(const std::string& expected) const {
  throw Error(ErrorKind::run, fmt::format("{} = {}: expected {}", name_.empty() ? "it" : name_,
                                          shown_value(*json_), expected));
}

std::string CheckedJson::name_of(std::string_view key) const {
  return name_.empty() ? shown_key(key) : fmt::format("{}.{}", name_, shown_key(key));
}

std::optional<CheckedJson> CheckedJson::find(std::string_view key) const {
  if (!json_->is_object()) {
    refuse("a table");
  }
  const auto found = json_->find(key);
  return found == json_->end() ? std::nullopt
                               : std::optional<CheckedJson>(std::in_place, *found, name_of(key));
}

CheckedJson CheckedJson::at(std::string_view key) const {
  std::optional<CheckedJson> found = find(key);
  if (!found) {
    throw Error(ErrorKind::run, fmt::format("{} is missing", name_of(key)));
  }
  return *std::move(found);
}

std::vector<std::pair<std::string, CheckedJson>> CheckedJson::members() const {
  if (!json_->is_object()) {
    refuse("a table");
  }
  std::vector<std::pair<std::string, CheckedJson>> all;
  for (const auto& [key, value] : json_->items()) {
    all.emplace_back(key, CheckedJson(value, name_of(key)));
  }
  return all;
}

std::vector<CheckedJson> CheckedJson::elements() const {
  if (!json_->is_array()) {
    refuse("a list");
  }
  std::vector<CheckedJson> all;
  for (const Json& value : *json_) {
    all.emplace_back(value, fmt::format("{}[{}]", name_, all.size()));
  }
  return all;
}

double CheckedJson::number(double low, double high) const {
  const double value = json_->is_number() ? json_->get<double>() : std::nan("");
  if (!(value >= low && value <= high)) {
    refuse(high == std::numeric_limits<double>::max()
               ? (low == std::numeric_limits<double>::lowest() ? "a finite number"
                                                               : fmt::format("at least {}", low))
               : fmt::format("{} to {}", low, high));
  }
  return value;
}

std::int64_t CheckedJson::whole(std::int64_t low, std::int64_t high) const {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool fits = json_->is_number_integer() &&
                    !(json_->is_number_unsigned() && json_->get<std::uint64_t>() > kLargest);
  const std::int64_t value = fits ? json_->get<std::int64_t>() : 0;
  if (!fits || value < low || value > high) {
    refuse(fmt::format("a whole number from {} to {}", low, high));
  }
  return value;
}

std::uint64_t CheckedJson::seed() const {
  // From TOML it comes signed, from JSON text unsigned.
  const bool fits = json_->is_number_unsigned() ||
                    (json_->is_number_integer() && json_->get<std::int64_t>() >= 0);
  if (!fits) {
    refuse("a whole number from 0");
  }
  return json_->get<std::uint64_t>();
}

bool CheckedJson::truth() const {
  if (!json_->is_boolean()) {
    refuse("true or false");
  }
  return json_->get<bool>();
}

std::string CheckedJson::text() const {
  if (!json_->is_string()) {
    refuse("a text");
  }
  return json_->get<std::string>();
}

}  // namespace winnow

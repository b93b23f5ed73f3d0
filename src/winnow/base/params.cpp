#include "winnow/base/params.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

// "0.001", "1,000,000"
std::string number_text(double value) {
  constexpr double kFewDigits = 1e4;    // up to here no separators are needed
  constexpr double kManyDigits = 1e15;  // above, not every whole number is a double
  const double size = std::abs(value);
  if (size < kFewDigits || size > kManyDigits || std::trunc(value) != value) {
    return fmt::format("{:g}", value);
  }
  std::string digits = fmt::format("{:.0f}", value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t end = digits.size(); end > first + 3;) {
    digits.insert(end -= 3, 1, ',');
  }
  return digits;
}

}  // namespace

Param::Param(std::string name, Target target, std::string help)
    : name_(std::move(name)), target_(std::move(target)), help_(std::move(help)) {
  const auto* choice = std::get_if<Choice*>(&target_);
  default_ = choice != nullptr ? Json((*choice)->name()) : value();
}

Param& Param::range(double low, double high) {
  low_ = low;
  high_ = high;
  return *this;
}

Param& Param::above(double low) {
  low_open_ = true;
  return at_least(low);
}

Param& Param::choices(std::vector<std::string> allowed) {
  choices_ = std::move(allowed);
  return *this;
}

Param& Param::source(std::string text) {
  source_ = std::move(text);
  return *this;
}

std::string Param::type() const {
  return std::visit(Overloaded{
                        [](const double*) { return "number"; },
                        [](const std::int64_t*) { return "whole number"; },
                        [](const std::uint64_t*) { return "whole number"; },
                        [](const bool*) { return "true or false"; },
                        [](const std::string*) { return "text"; },
                        [](const NamedValue&) { return "text"; },
                        [](const std::vector<double>*) { return "list of numbers"; },
                        [](const std::vector<std::int64_t>*) { return "list of whole numbers"; },
                        [](const std::vector<std::string>*) { return "list of texts"; },
                        [](const Choice*) { return "name or table"; },
                    },
                    target_);
}

std::string Param::range_text() const {
  if (const auto* choice = std::get_if<Choice*>(&target_)) {
    constexpr std::size_t kFewNames = 5;
    const std::vector<std::string> names = (*choice)->names();
    return names.size() <= kFewNames ? join(names, " | ") : type();
  }
  if (!choices_.empty()) {
    return join(choices_, " | ");
  }
  const bool has_low = !std::isinf(low_);
  const bool has_high = !std::isinf(high_);
  if (has_low && has_high && low_open_) {
    return fmt::format("greater than {} and at most {}", number_text(low_), number_text(high_));
  }
  if (has_low && has_high) {
    return fmt::format("{} to {}", number_text(low_), number_text(high_));
  }
  if (has_low) {
    return fmt::format("{} {}", low_open_ ? ">" : ">=", number_text(low_));
  }
  return has_high ? fmt::format("<= {}", number_text(high_)) : "";
}

Json Param::value() const {
  return std::visit(Overloaded{
                        [](const Choice* target) { return target->value(); },
                        [](const NamedValue& target) { return Json(target.name()); },
                        [](const auto* target) { return Json(*target); },
                    },
                    target_);
}

std::string Param::full_name(std::string_view where) const {
  return where.empty() ? name_ : fmt::format("{}.{}", where, name_);
}

void Param::reject(const Json& value, std::string_view where, const std::string& expected) const {
  const std::string full = full_name(where);
  throw Error(ErrorKind::experiment,
              fmt::format("{} = {}: expected {}", full, value.dump(), expected), help_);
}

void Param::check_range(double number, const Json& value, std::string_view where) const {
  const bool too_low = low_open_ ? number <= low_ : number < low_;
  if (std::isnan(number) || too_low || number > high_) {
    const bool from_to = !std::isinf(low_) && !std::isinf(high_) && !low_open_;
    reject(value, where, fmt::format("a {} {}{}", type(), from_to ? "from " : "", range_text()));
  }
}

void Param::set(const Json& value, std::string_view where) {
  const auto number = [&](const Json& element) {
    if (!element.is_number()) {
      reject(value, where, "a " + type());
    }
    const double read = element.get<double>();
    check_range(read, value, where);
    return read;
  };
  const auto whole = [&](const Json& element) {
    if (!element.is_number_integer()) {
      reject(value, where, "a " + type());
    }
    check_range(element.get<double>(), value, where);
    return element.get<std::int64_t>();
  };
  const auto text = [&] {
    if (!value.is_string()) {
      reject(value, where, "a text in quotes");
    }
    auto read = value.get<std::string>();
    if (!choices_.empty() && !std::ranges::count(choices_, read)) {
      reject(value, where, "one of " + join(choices_, ", "));
    }
    return read;
  };
  std::visit(Overloaded{
                 [&](double* target) { *target = number(value); },
                 [&](std::int64_t* target) { *target = whole(value); },
                 [&](std::uint64_t* target) {
                   if (!value.is_number_integer() || (value.is_number_integer() && value < 0)) {
                     reject(value, where, "a whole number that is not negative");
                   }
                   *target = value.get<std::uint64_t>();
                 },
                 [&](bool* target) {
                   if (!value.is_boolean()) {
                     reject(value, where, "true or false");
                   }
                   *target = value.get<bool>();
                 },
                 [&](std::string* target) { *target = text(); },
                 [&](const NamedValue& target) { target.set(text()); },
                 [&](std::vector<double>* target) {
                   if (!value.is_array()) {
                     reject(value, where, "a list of numbers");
                   }
                   target->clear();
                   for (const Json& element : value) {
                     target->push_back(number(element));
                   }
                 },
                 [&](std::vector<std::int64_t>* target) {
                   if (!value.is_array()) {
                     reject(value, where, "a list of whole numbers");
                   }
                   target->clear();
                   for (const Json& element : value) {
                     target->push_back(whole(element));
                   }
                 },
                 [&](std::vector<std::string>* target) {
                   const auto is_text = [](const Json& element) { return element.is_string(); };
                   if (!value.is_array() || !std::ranges::all_of(value, is_text)) {
                     reject(value, where, "a list of texts in quotes");
                   }
                   *target = value.get<std::vector<std::string>>();
                 },
                 [&](Choice* target) { target->set(value, full_name(where)); },
             },
             target_);
}

UnknownKey::UnknownKey(std::string_view table, std::string_view key,
                       const std::vector<std::string>& known)
    : Error(ErrorKind::experiment,
            fmt::format("unknown key '{}{}{}'", table, table.empty() ? "" : ".", key),
            suggestion(key, known)),
      table_(table),
      key_(key) {}

Param& Params::add(std::string name, double& target, std::string help) {
  return params_.emplace_back(Param(std::move(name), &target, std::move(help)));
}
Param& Params::add(std::string name, std::int64_t& target, std::string help) {
  return params_.emplace_back(Param(std::move(name), &target, std::move(help)));
}
Param& Params::add(std::string name, std::uint64_t& target, std::string help) {
  return params_.emplace_back(Param(std::move(name), &target, std::move(help)));
}
Param& Params::add(std::string name, bool& target, std::string help) {
  return params_.emplace_back(Param(std::move(name), &target, std::move(help)));
}
Param& Params::add(std::string name, std::string& target, std::string help) {
  return params_.emplace_back(Param(std::move(name), &target, std::move(help)));
}
Param& Params::add(std::string name, std::vector<double>& target, std::string help) {
  return params_.emplace_back(Param(std::move(name), &target, std::move(help)));
}
Param& Params::add(std::string name, std::vector<std::int64_t>& target, std::string help) {
  return params_.emplace_back(Param(std::move(name), &target, std::move(help)));
}

Param& Params::add(std::string name, std::vector<std::string>& target, std::string help) {
  return params_.emplace_back(Param(std::move(name), &target, std::move(help)));
}

Param& Params::add(std::string name, Choice& target, std::string help) {
  return params_.emplace_back(Param(std::move(name), &target, std::move(help)));
}

Param& Params::add_named(std::string name, NamedValue target, std::vector<std::string> names,
                         std::string help) {
  return params_.emplace_back(Param(std::move(name), std::move(target), std::move(help)))
      .choices(std::move(names));
}

Param* Params::find(std::string_view name) {
  const auto found = std::ranges::find(params_, name, &Param::name);
  return found == params_.end() ? nullptr : &*found;
}

void Params::read(const Json& table, std::string_view where, std::vector<std::string> also) {
  if (!table.is_object()) {
    throw Error(ErrorKind::experiment, fmt::format("{}: expected a table", where),
                fmt::format("write [{}] on a line of its own and the keys below it", where));
  }
  for (const auto& [key, value] : table.items()) {
    if (Param* param = find(key)) {
      param->set(value, where);
      continue;
    }
    if (std::ranges::count(also, key)) {
      continue;
    }
    std::vector<std::string> known = also;
    std::ranges::transform(params_, std::back_inserter(known), &Param::name);
    throw UnknownKey(where, key, known);
  }
}

Json Params::values() const {
  Json values = Json::object();
  for (const Param& param : params_) {
    values[param.name()] = param.value();
  }
  return values;
}

}  // namespace winnow

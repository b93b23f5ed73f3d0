// One declaration per parameter: name, where its value lives, default, range, help. The same
// declaration reads and checks an experiment, prints `describe` and makes the tables of the docs.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/json.h"

namespace winnow {

// A parameter that is chosen by name and has parameters of its own:
// base = "fedprox", or base = { name = "fedprox", mu = 0.1 }.
class Choice {
 public:
  virtual ~Choice() = default;
  virtual Json value() const = 0;                      // the name and all its parameters
  virtual std::string name() const = 0;                // the name alone
  virtual std::vector<std::string> names() const = 0;  // what may be chosen
  // Throws Error(kind experiment) naming `key`, the whole key of the parameter.
  virtual void set(const Json& value, const std::string& key) = 0;
};

template <typename T>
concept Enumeration = std::is_enum_v<T>;

// A value of an enumeration by its names.
struct NamedValue {
  std::function<std::string()> name;
  std::function<void(const std::string& name)> set;  // one of the names
};

// One declared parameter. The value held by the target when it is declared is the default.
class Param {
 public:
  // The smallest and largest allowed value (of each element, for lists).
  Param& range(double low, double high);
  Param& at_least(double low) { return range(low, std::numeric_limits<double>::infinity()); }
  Param& above(double low);  // as at_least, but `low` itself is not allowed
  Param& choices(std::vector<std::string> allowed);
  Param& source(std::string text);  // where the default comes from: a paper, a section of docs/spec

  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  const std::string& source() const { return source_; }
  std::string type() const;  // "number", "whole number", "true or false", "text", "list of ..."
  std::string range_text() const;  // "0 to 1", "> 0", "a | b", ""
  const Json& default_value() const { return default_; }
  Json value() const;
  // Checks a value and stores it; throws Error(kind experiment) naming `where`.name.
  void set(const Json& value, std::string_view where);

 private:
  friend class Params;
  using Target = std::variant<double*, std::int64_t*, std::uint64_t*, bool*, std::string*,
                              std::vector<double>*, std::vector<std::int64_t>*,
                              std::vector<std::string>*, Choice*, NamedValue>;
  Param(std::string name, Target target, std::string help);
  std::string full_name(std::string_view where) const;
  [[noreturn]] void reject(const Json& value, std::string_view where,
                           const std::string& expected) const;
  void check_range(double number, const Json& value, std::string_view where) const;

  std::string name_;
  Target target_;
  std::string help_;
  std::string source_;
  Json default_;
  double low_ = -std::numeric_limits<double>::infinity();
  double high_ = std::numeric_limits<double>::infinity();
  bool low_open_ = false;
  std::vector<std::string> choices_;
};

// A table has a key that nobody declared: for who knows more keys than those of the table.
class UnknownKey : public Error {
 public:
  UnknownKey(std::string_view table, std::string_view key, const std::vector<std::string>& known);

  const std::string& table() const { return table_; }
  const std::string& key() const { return key_; }

 private:
  std::string table_;
  std::string key_;
};

// The parameters of one table of an experiment. Targets must outlive it.
class Params {
 public:
  Param& add(std::string name, double& target, std::string help);
  Param& add(std::string name, std::int64_t& target, std::string help);
  Param& add(std::string name, std::uint64_t& target, std::string help);
  Param& add(std::string name, bool& target, std::string help);
  Param& add(std::string name, std::string& target, std::string help);
  Param& add(std::string name, std::vector<double>& target, std::string help);
  Param& add(std::string name, std::vector<std::int64_t>& target, std::string help);
  Param& add(std::string name, std::vector<std::string>& target, std::string help);
  Param& add(std::string name, Choice& target, std::string help);
  // A value of an enumeration, which experiments know by these names:
  // add("fuse", fuse_, {{"kept", Fuse::kept}, {"all", Fuse::all}}, "...").
  template <Enumeration Enum>
  Param& add(std::string name, Enum& target,
             const std::vector<std::pair<std::string, std::type_identity_t<Enum>>>& names,
             std::string help);

  // Sets every parameter named in `table`; a key that is not declared is an UnknownKey with a
  // suggestion. `where` is the table's name in messages; keys in `also` belong to somebody else and
  // are skipped.
  void read(const Json& table, std::string_view where, std::vector<std::string> also = {});
  Json values() const;  // all parameters, defaults included
  const std::vector<Param>& all() const { return params_; }
  Param* find(std::string_view name);

 private:
  Param& add_named(std::string name, NamedValue target, std::vector<std::string> names,
                   std::string help);

  std::vector<Param> params_;
};

template <Enumeration Enum>
Param& Params::add(std::string name, Enum& target,
                   const std::vector<std::pair<std::string, std::type_identity_t<Enum>>>& names,
                   std::string help) {
  NamedValue value;
  value.name = [&target, names] {
    for (const auto& [known, each] : names) {
      if (each == target) {
        return known;
      }
    }
    return std::string();
  };
  value.set = [&target, names](const std::string& wanted) {
    for (const auto& [known, each] : names) {
      if (known == wanted) {
        target = each;
      }
    }
  };
  std::vector<std::string> known;
  for (const auto& entry : names) {
    known.push_back(entry.first);
  }
  return add_named(std::move(name), std::move(value), std::move(known), std::move(help));
}

}  // namespace winnow

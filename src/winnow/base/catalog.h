// Things that an experiment chooses by name: methods, networks, data sets, partitions, noises, ...
// Each layer has a catalog of its own, filled with what Winnow brings by a function builtin_...();
// a program of one's own adds to a copy of it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow {

// Entries in the order in which they were added, which is the order they are listed in. An entry
// has a `name` and a `summary`; references to it stay valid while others are added.
template <typename Info>
class Catalog {
 public:
  using value_type = Info;
  using const_iterator = typename std::deque<Info>::const_iterator;

  // `kind` is what an entry is called in messages, `listed_by` the command that lists them all,
  // `others` are names that may stand where an entry's does, and `fault` is whose fault an unknown
  // name is.
  explicit Catalog(std::string kind, std::string listed_by = "",
                   std::vector<std::string> others = {}, ErrorKind fault = ErrorKind::experiment)
      : kind_(std::move(kind)),
        listed_by_(std::move(listed_by)),
        others_(std::move(others)),
        fault_(fault) {}

  // Throws Error(kind internal) when the name is empty or taken.
  void add(Info info) {
    if (info.name.empty()) {
      throw Error(ErrorKind::internal, fmt::format("there is a {} without a name", kind_));
    }
    if (look_up(info.name) != nullptr || std::ranges::count(others_, info.name) > 0) {
      throw Error(ErrorKind::internal,
                  fmt::format("there are two {}s named '{}'", kind_, info.name));
    }
    entries_.push_back(std::move(info));
  }

  // Null where there is none of this name.
  const Info* look_up(std::string_view name) const {
    const auto found = std::ranges::find(entries_, name, &Info::name);
    return found == entries_.end() ? nullptr : &*found;
  }
  // Throws Error with a suggestion for an unknown name.
  const Info& find(std::string_view name) const {
    if (const Info* info = look_up(name)) {
      return *info;
    }
    throw Error(fault_, fmt::format("unknown {} '{}'", kind_, name),
                suggestion(name, known(), listed_by_));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    std::ranges::transform(entries_, std::back_inserter(names), &Info::name);
    return names;
  }
  // The names that may be written: the others, then those of the entries.
  std::vector<std::string> known() const {
    std::vector<std::string> known = others_;
    std::ranges::transform(entries_, std::back_inserter(known), &Info::name);
    return known;
  }

  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }

 private:
  std::string kind_;
  std::string listed_by_;
  std::vector<std::string> others_;
  ErrorKind fault_;
  std::deque<Info> entries_;
};

}  // namespace winnow

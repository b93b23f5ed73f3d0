// What the pictures of a partition share, whether drawn or printed.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "winnow/judge/census.h"

namespace winnow::partition_parts {

struct Colour {
  int red = 0;
  int green = 0;
  int blue = 0;
};

// Up to ten classes get colours that differ as much as possible; more get the Turbo colour map (its
// published polynomial), without its darkest ends.
Colour class_colour(std::size_t index, std::size_t classes);

// Throws Error(kind internal) as partition_svg() does.
void check(const Census& picture);

struct Totals {
  std::int64_t samples = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::int64_t noisy = 0;
  std::int64_t wrong = 0;
  std::int64_t distorted = 0;

  std::string percent(std::int64_t part) const;
};

Totals totals_of(const Census& picture);

std::string counted(std::int64_t count, std::string_view thing);  // "1 client", "2 clients"
std::string who_holds_what(const Census& picture, const Totals& totals);
std::string how_noisy(const Census& picture, const Totals& totals);

template <typename... Arguments>
void add(std::string& out, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Arguments>(arguments)...);
}

}  // namespace winnow::partition_parts

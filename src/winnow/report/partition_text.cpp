// The picture of a partition in lines for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <vector>

#include "winnow/base/text.h"
#include "winnow/report/drawn_text.h"
#include "winnow/report/partition_parts.h"
#include "winnow/report/partition_picture.h"

namespace winnow {

using partition_parts::add;
using partition_parts::check;
using partition_parts::class_colour;
using partition_parts::Colour;
using partition_parts::counted;
using partition_parts::how_noisy;
using partition_parts::Totals;
using partition_parts::totals_of;
using partition_parts::who_holds_what;

namespace {

// The nearest of the 216 colours that terminals with 256 colours share.
int terminal_colour(const Colour& colour) {
  constexpr std::array<int, 6> kLevels{0, 95, 135, 175, 215, 255};
  const auto nearest = [&](int value) {
    const auto* const best = std::min_element(
        kLevels.begin(), kLevels.end(),
        [value](int a, int b) { return std::abs(a - value) < std::abs(b - value); });
    return static_cast<int>(best - kLevels.begin());
  };
  return 16 + 36 * nearest(colour.red) + 6 * nearest(colour.green) + nearest(colour.blue);
}

// How many of `cells` each count gets: in proportion, the largest remainders rounded up.
std::vector<std::size_t> divide(std::size_t cells, const std::vector<std::int64_t>& counts,
                                std::int64_t total) {
  std::vector<std::size_t> parts(counts.size(), 0);
  if (total == 0) {
    return parts;
  }
  const auto scaled = [&](std::size_t i) { return counts[i] * static_cast<std::int64_t>(cells); };
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return scaled(a) % total > scaled(b) % total;
  });
  std::size_t left = cells;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    parts[i] = static_cast<std::size_t>(scaled(i) / total);
    left -= parts[i];
  }
  for (std::size_t i = 0; i < left; ++i) {
    ++parts[order[i]];
  }
  return parts;
}

// Cells of one class, for a terminal.
std::string cells_of(std::size_t index, std::size_t classes, std::size_t cells, bool colour) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  if (cells == 0 || !colour) {
    return std::string(cells, kLetters[index % kLetters.size()]);
  }
  return fmt::format("\x1b[48;5;{}m{}\x1b[0m", terminal_colour(class_colour(index, classes)),
                     std::string(cells, ' '));
}

// The first classes with their letter or colour, wrapped.
std::string text_legend(const Census& picture, std::size_t width, bool colour) {
  constexpr std::size_t kMost = 40;
  const std::size_t classes = picture.class_names.size();
  const std::size_t mark = colour ? 2 : 1;
  std::string out;
  std::size_t used = 0;
  const auto entry = [&](const std::string& text, std::size_t length) {
    const bool first = used == 0;
    const bool wraps = !first && used + 2 + length > width;
    out += first ? "" : wraps ? "\n" : "  ";
    out += text;
    used = first || wraps ? length : used + 2 + length;
  };
  for (std::size_t c = 0; c < std::min(classes, kMost); ++c) {
    const std::string name = clean(picture.class_names[c]);
    entry(cells_of(c, classes, mark, colour) + " " + name, mark + 1 + length_of(name));
  }
  if (classes > kMost) {
    const std::string rest = fmt::format("... and {} more classes", classes - kMost);
    entry(rest, rest.size());
  }
  return out + "\n";
}

}  // namespace

std::string partition_text(const Census& picture, int width, bool colour, std::size_t limit) {
  check(picture);
  constexpr int kBeforeBar = 37;
  const auto cells = static_cast<std::size_t>(std::clamp(width - kBeforeBar, 10, 100));
  const Totals totals = totals_of(picture);
  const std::string_view bold = colour ? "\x1b[1m" : "";
  const std::string_view red = colour ? "\x1b[31m" : "";
  const std::string_view plain = colour ? "\x1b[0m" : "";

  std::string out;
  add(out, "{}{}{}\n{}\n{}\n", bold, clean(picture.title), plain, who_holds_what(picture, totals),
      how_noisy(picture, totals));
  out += text_legend(picture, static_cast<std::size_t>(std::max(width, 1)), colour);
  add(out, "\n{:>6}  {:>8} {:>7}  {:>9}  {}\n", "client", "samples", "wrong", "distorted",
      "share of each given class");
  const std::size_t shown = std::min(limit, picture.clients.size());
  for (std::size_t id = 0; id < shown; ++id) {
    const ClientCensus& client = picture.clients[id];
    const auto percent = [&](double share) {
      return picture.truth_known ? percent_text(share) : "-";
    };
    add(out, "{}{:>6}{} {:>8} {:>7}  {:>9}{}  ", client.noisy ? red : "", id,
        client.noisy ? '!' : ' ', client.samples, percent(client.wrong_share),
        percent(client.distorted_share), client.noisy ? plain : "");
    const std::vector<std::size_t> parts = divide(cells, client.given_counts, client.samples);
    for (std::size_t c = 0; c < parts.size(); ++c) {
      out += cells_of(c, parts.size(), parts[c], colour);
    }
    out += '\n';
  }
  if (shown < picture.clients.size()) {
    add(out, "... and {} (--all shows them)\n",
        counted(static_cast<std::int64_t>(picture.clients.size() - shown), "more client"));
  }
  if (std::ranges::any_of(picture.clients.begin(),
                          picture.clients.begin() + static_cast<std::ptrdiff_t>(shown),
                          &ClientCensus::noisy)) {
    out += "! noisy client\n";
  }
  return out;
}

}  // namespace winnow

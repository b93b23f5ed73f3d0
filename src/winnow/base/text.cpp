#include "winnow/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace winnow {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// Without what people write differently: "Fashion_MNIST" and "fashion-mnist" are the same.
std::string folded(std::string_view word) {
  std::string text;
  for (const char c : word) {
    if (c != '-' && c != '_' && c != ' ') {
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return text;
}

// The shortest known word that holds this one: "precision" may be meant for "flag_precision".
std::string nearest_holding(const std::string& word, std::span<const std::string> known) {
  constexpr std::size_t kTelling = 4;  // letters; fewer occur in many words
  std::string best;
  for (const std::string& candidate : known) {
    if (word.size() >= kTelling && folded(candidate).find(word) != std::string::npos &&
        (best.empty() || candidate.size() < best.size())) {
      best = candidate;
    }
  }
  return best;
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> known) {
  const std::string meant = folded(word);
  if (meant.empty()) {
    return {};
  }
  std::string best;
  // A word of one or two letters that differs in all of them is another word.
  std::size_t best_distance =
      std::min(std::max<std::size_t>(2, meant.size() / 3) + 1, meant.size());
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(meant, folded(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best.empty() ? nearest_holding(meant, known) : best;
}

std::string suggestion(std::string_view word, std::span<const std::string> known,
                       std::string_view listed_by) {
  constexpr std::size_t kFew = 12;
  if (const std::string near = nearest(word, known); !near.empty()) {
    return fmt::format("did you mean '{}'?", near);
  }
  if (!listed_by.empty() && known.size() > kFew) {
    return fmt::format("'{}' shows them all", listed_by);
  }
  return known.empty() ? std::string() : "known: " + join(known, ", ");
}

std::string meant(std::string_view word, std::span<const Synonym> synonyms) {
  const auto found = std::ranges::find(synonyms, folded(word),
                                       [](const Synonym& synonym) { return folded(synonym.word); });
  return found == synonyms.end() ? std::string(word) : found->name;
}

std::string join(std::span<const std::string> words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(at + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string percent_text(double share) {
  return fmt::format("{:.2f}%", 100.0 * share);
}

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 1000.0 && unit + 1 < kUnits.size()) {
    bytes /= 1000.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds < 9.95) {
    return fmt::format("{:.1f}s", seconds);
  }
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 60) {
    return fmt::format("{}s", whole);
  }
  if (whole < 3600) {
    return fmt::format("{}m {:02d}s", whole / 60, whole % 60);
  }
  return fmt::format("{}h {:02d}m", whole / 3600, whole / 60 % 60);
}

}  // namespace winnow

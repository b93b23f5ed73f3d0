// Small helpers for messages: the nearest known word, numbers for people.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace winnow {

// The known word nearest to a misspelt one, or "" when none is near enough to be meant. Case,
// hyphens and underscores do not count.
std::string nearest(std::string_view word, std::span<const std::string> known);

// "did you mean 'lr'?" or "known: a, b, c": the hint for an unknown name. Where there are many
// names, the command that lists them (`listed_by`) takes the place of the list.
std::string suggestion(std::string_view word, std::span<const std::string> known,
                       std::string_view listed_by = "");

// What people call something that has another name here.
struct Synonym {
  std::string word;
  std::string name;
};
// The name that `word` stands for, or the word itself.
std::string meant(std::string_view word, std::span<const Synonym> synonyms);

std::string join(std::span<const std::string> words, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

// A share in the one form in which people read it; files keep the share itself.
std::string percent_text(double share);     // 0.6877: "68.77%"
std::string human_bytes(double bytes);      // "462.6 kB"
std::string human_seconds(double seconds);  // "1m 05s"

}  // namespace winnow

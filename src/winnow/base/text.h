// Small helpers for messages: the nearest known word, numbers for people.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace winnow {

// The known word nearest to a misspelt one, or "" when none is near enough to be meant.
std::string nearest(std::string_view word, std::span<const std::string> known);

// "did you mean 'lr'?" or "known: a, b, c": the hint for an unknown name.
std::string suggestion(std::string_view word, std::span<const std::string> known);

std::string join(std::span<const std::string> words, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

std::string human_bytes(double bytes);      // "462.6 kB"
std::string human_seconds(double seconds);  // "1m 05s"

}  // namespace winnow

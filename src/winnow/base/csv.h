// Fields of a CSV line.
#pragma once

#include <string>
#include <vector>

namespace winnow {

// In quotes where it needs them.
std::string csv_field(const std::string& text);

// The fields of one line. A quoted field holds no line feed.
std::vector<std::string> split_csv(const std::string& line);

}  // namespace winnow

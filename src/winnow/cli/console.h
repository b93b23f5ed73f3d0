// What the terminal can show.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace winnow {

bool stdout_is_terminal();
bool stderr_is_terminal();
// Colours only on a terminal, and never when NO_COLOR is set.
bool use_colour();

std::string bold(std::string_view text, bool colour);
std::string dim(std::string_view text, bool colour);
std::string red(std::string_view text, bool colour);
std::string green(std::string_view text, bool colour);

int terminal_width();  // 80 when unknown

// Left-aligned columns with two spaces between them; the last one wraps at the terminal's width.
std::string columns(const std::vector<std::vector<std::string>>& rows, int width);

}  // namespace winnow

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

// Prints to standard error at once. A message that cannot be written, because the disk is full or
// nobody listens, is no reason to stop a run: it is dropped.
void tell(std::string_view text);

// Opens the standard streams that the program was started without, so that no file of a run takes
// their place and receives messages.
void keep_standard_streams();

int terminal_width();  // 80 when unknown

// Breaks `text` at blanks so that no line is longer than `width`, unless a word is.
std::vector<std::string> wrap_words(const std::string& text, std::size_t width);

// Left-aligned columns with two spaces between them; the last one wraps at the terminal's width.
std::string columns(const std::vector<std::vector<std::string>>& rows, int width);

}  // namespace winnow

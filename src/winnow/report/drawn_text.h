// Texts from files, fit for a picture.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace winnow {

// Names come from folders and files: what neither XML nor a terminal should see becomes '?'.
std::string clean(std::string_view text);

// The same, with what means something to XML written so that it does not.
std::string escaped(std::string_view text);

// Characters, not bytes.
std::size_t length_of(std::string_view cleaned);

}  // namespace winnow

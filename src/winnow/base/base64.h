// Bytes as text that JSON, HTML and SVG can hold.
#pragma once

#include <string>
#include <string_view>

namespace winnow {

// RFC 4648, with padding and without line ends.
std::string base64(std::string_view bytes);

}  // namespace winnow

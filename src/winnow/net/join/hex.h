// Digests and nonces: bytes on the wire, hexadecimal digits in files and in our own code.
#pragma once

#include <string>
#include <string_view>

namespace winnow::member {

std::string hex_of(std::string_view bytes);
// Empty where the text is not pairs of hexadecimal digits in small letters.
std::string bytes_of_hex(std::string_view digits);

}  // namespace winnow::member

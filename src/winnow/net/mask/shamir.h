// Shamir's secret sharing over GF(2^16): a secret in shares of its own size, of which any
// `threshold` give it back and fewer tell nothing about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace winnow::mask {

// In GF(2^16) by x^16 + x^12 + x^3 + x + 1, in a time that does not depend on the numbers.
std::uint16_t field_product(std::uint16_t a, std::uint16_t b);
std::uint16_t field_inverse(std::uint16_t a);  // of 0 it is 0

// The shares at 1, 2, ..., `count` of a secret of an even number of bytes, which are taken as
// little-endian numbers of 16 bits. `random` has 2 * (threshold - 1) bytes for each of these
// numbers: the coefficients of its polynomial, lowest degree first.
std::vector<std::string> split_secret(const std::string& secret, std::size_t threshold,
                                      std::size_t count, const std::string& random);

// The secret from shares by the places that they are of. Throws Error(kind peer) where a place is 0
// or shares differ in size. With too few shares, or shares of something else, it gives other bytes.
std::string join_secret(const std::map<std::uint16_t, std::string>& shares);

}  // namespace winnow::mask

#include "winnow/net/mask/shamir.h"

#include <algorithm>

#include "winnow/base/error.h"

namespace winnow::mask {
namespace {

constexpr std::uint32_t kPolynomial = 0x1100B;
constexpr unsigned kBits = 16;

std::uint16_t number_at(const std::string& bytes, std::size_t place) {
  const auto low = static_cast<unsigned char>(bytes[2 * place]);
  const auto high = static_cast<unsigned char>(bytes[2 * place + 1]);
  return static_cast<std::uint16_t>(low | (high << 8U));
}

void put_number(std::string& bytes, std::size_t place, std::uint16_t number) {
  bytes[2 * place] = static_cast<char>(number & 0xFFU);
  bytes[2 * place + 1] = static_cast<char>(number >> 8U);
}

std::uint16_t sum(std::uint16_t a, std::uint16_t b) {
  return static_cast<std::uint16_t>(a ^ b);
}

}  // namespace

std::uint16_t field_product(std::uint16_t a, std::uint16_t b) {
  std::uint32_t product = 0;
  for (unsigned bit = 0; bit < kBits; ++bit) {
    const std::uint32_t all = 0U - ((static_cast<std::uint32_t>(b) >> bit) & 1U);
    product ^= all & (static_cast<std::uint32_t>(a) << bit);
  }
  for (unsigned bit = 2 * kBits - 2; bit >= kBits; --bit) {
    const std::uint32_t all = 0U - ((product >> bit) & 1U);
    product ^= all & (kPolynomial << (bit - kBits));
  }
  return static_cast<std::uint16_t>(product);
}

// a^(2^16 - 2)
std::uint16_t field_inverse(std::uint16_t a) {
  std::uint16_t result = 1;
  std::uint16_t square = a;
  for (unsigned bit = 1; bit < kBits; ++bit) {
    square = field_product(square, square);
    result = field_product(result, square);
  }
  return result;
}

std::vector<std::string> split_secret(const std::string& secret, std::size_t threshold,
                                      std::size_t count, const std::string& random) {
  const std::size_t numbers = secret.size() / 2;
  if (secret.size() % 2 != 0 || threshold == 0 || threshold > count || count > 0xFFFF ||
      random.size() != 2 * (threshold - 1) * numbers) {
    throw Error(ErrorKind::internal, "a secret cannot be shared like this");
  }
  std::vector<std::string> shares(count, std::string(secret.size(), '\0'));
  for (std::size_t i = 0; i < numbers; ++i) {
    for (std::size_t place = 0; place < count; ++place) {
      const auto x = static_cast<std::uint16_t>(place + 1);
      std::uint16_t value = 0;
      for (std::size_t degree = threshold - 1; degree > 0; --degree) {
        const std::uint16_t coefficient = number_at(random, i * (threshold - 1) + degree - 1);
        value = field_product(sum(value, coefficient), x);
      }
      put_number(shares[place], i, sum(value, number_at(secret, i)));
    }
  }
  return shares;
}

std::string join_secret(const std::map<std::uint16_t, std::string>& shares) {
  const std::size_t size = shares.empty() ? 0 : shares.begin()->second.size();
  if (shares.empty() || shares.contains(0) || size % 2 != 0 ||
      std::ranges::any_of(shares, [&](const auto& entry) { return entry.second.size() != size; })) {
    throw Error(ErrorKind::peer, "the shares of a secret do not fit together");
  }
  std::string secret(size, '\0');
  for (const auto& [x, share] : shares) {
    std::uint16_t above = 1;
    std::uint16_t below = 1;
    for (const auto& [other, ignored] : shares) {
      if (other != x) {
        above = field_product(above, other);
        below = field_product(below, sum(other, x));
      }
    }
    const std::uint16_t factor = field_product(above, field_inverse(below));
    for (std::size_t i = 0; i < size / 2; ++i) {
      put_number(secret, i, sum(number_at(secret, i), field_product(factor, number_at(share, i))));
    }
  }
  return secret;
}

}  // namespace winnow::mask

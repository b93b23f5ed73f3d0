#include "winnow/net/serve/wire_form.h"

#include <fmt/format.h>
#include <sys/random.h>

#include "winnow/base/error.h"

namespace winnow::net {

std::string raw_of(std::string_view hexadecimal) {
  std::string raw;
  raw.reserve(hexadecimal.size() / 2);
  const auto nibble = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  for (std::size_t i = 0; i + 1 < hexadecimal.size(); i += 2) {
    raw.push_back(static_cast<char>(nibble(hexadecimal[i]) * 16 + nibble(hexadecimal[i + 1])));
  }
  return raw;
}

std::string hexadecimal_of(std::string_view raw) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  digits.reserve(raw.size() * 2);
  for (const char byte : raw) {
    const auto value = static_cast<unsigned char>(byte);
    digits.push_back(kDigits[value >> 4U]);
    digits.push_back(kDigits[value & 15U]);
  }
  return digits;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (::getrandom(bytes.data(), count, 0) != static_cast<ssize_t>(count)) {
    throw Error(ErrorKind::run, "the system provides no random numbers");
  }
  return bytes;
}

std::string name_of(v1::Reason reason) {
  switch (reason) {
    case v1::WRONG_PROTOCOL:
      return "wrong_protocol";
    case v1::WRONG_NUMERICS:
      return "wrong_numerics";
    case v1::WRONG_CHARTER:
      return "wrong_charter";
    case v1::NOT_ENROLLED:
      return "not_enrolled";
    case v1::REVOKED:
      return "revoked";
    case v1::WRONG_FEDERATION:
      return "wrong_federation";
    case v1::NAME_TAKEN:
      return "name_taken";
    case v1::NOT_ASKED:
      return "not_asked";
    case v1::WRONG_ROUND:
      return "wrong_round";
    case v1::WRONG_NONCE:
      return "wrong_nonce";
    case v1::LATE:
      return "late";
    case v1::DUPLICATE:
      return "duplicate";
    case v1::WRONG_KIND:
      return "wrong_kind";
    case v1::WRONG_FIELDS:
      return "wrong_fields";
    case v1::WRONG_LENGTH:
      return "wrong_length";
    case v1::OUT_OF_RANGE:
      return "out_of_range";
    case v1::WRONG_LAYOUT:
      return "wrong_layout";
    case v1::OVERSIZED:
      return "oversized";
    case v1::WRONG_SAMPLES:
      return "wrong_samples";
    case v1::CORRUPTED:
      return "corrupted";
    case v1::NOT_FINITE:
      return "not_finite";
    case v1::NORM_BAND:
      return "norm_band";
    case v1::REFUSED_BY_METHOD:
      return "refused_by_method";
    case v1::NOT_NOW:
      return "not_now";
    default:
      return "none";
  }
}

v1::Reason reason_of(Reason reason) {
  switch (reason) {
    case Reason::wrong_kind:
      return v1::WRONG_KIND;
    case Reason::wrong_fields:
      return v1::WRONG_FIELDS;
    case Reason::wrong_length:
      return v1::WRONG_LENGTH;
    case Reason::out_of_range:
      return v1::OUT_OF_RANGE;
    case Reason::wrong_samples:
      return v1::WRONG_SAMPLES;
    case Reason::wrong_layout:
      return v1::WRONG_LAYOUT;
  }
  return v1::WRONG_FIELDS;
}

}  // namespace winnow::net

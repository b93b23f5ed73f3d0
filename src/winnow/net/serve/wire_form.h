// Digests and names in the two forms they have: hexadecimal in our code, raw bytes on the wire.
#pragma once

#include <string>
#include <string_view>

#include "winnow/base/sha256.h"
#include "winnow/federation/firewall.h"
#include "winnow/federation/fleet.h"
#include "winnow/net/v1/federation.pb.h"

namespace winnow::net {

inline constexpr std::size_t kDigestBytes = 32;
inline constexpr std::size_t kNonceBytes = 16;
// Models travel in the pieces that they are hashed in; the last one may be shorter.
inline constexpr std::size_t kPieceBytes = kHashPiece;
// What this program speaks.
inline constexpr std::uint32_t kProtocol = 1;

std::string raw_of(std::string_view hexadecimal);
std::string hexadecimal_of(std::string_view raw);

// So many bytes that nobody can guess.
std::string random_bytes(std::size_t count);

// "wrong_round"; REASON_NONE is "none".
std::string name_of(v1::Reason reason);
v1::Reason reason_of(Reason reason);

}  // namespace winnow::net

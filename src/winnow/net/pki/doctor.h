// What is wrong with a connection, in words. gRPC only says that it is unavailable.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "winnow/net/pki/credentials.h"

namespace winnow {

struct Diagnosis {
  bool fine = false;
  std::string sentence;  // without a full stop, as messages of errors are
  std::string hint;      // what to do about it; may be empty
};

// Looks at a member's own credentials, then connects to the server as gRPC would and says how far
// that goes: to the name of the host, its port, TLS, its certificate, its opinion of ours (in TLS
// 1.3 that comes after the handshake, with the first bytes it sends), HTTP/2. Throws nothing but
// std::bad_alloc, and takes no longer than `patience`.
Diagnosis examine(const std::string& host, std::uint16_t port, const Credentials& own,
                  std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace winnow

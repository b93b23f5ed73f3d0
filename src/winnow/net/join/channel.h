// A member's line to its server. What is behind it is gRPC (channel.cpp), or in tests a server in
// memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "winnow/net/pki/credentials.h"
#include "winnow/net/v1/federation.pb.h"

namespace winnow::member {

namespace v1 = net::v1;

// Models and public images travel in pieces of so many bytes; the last one may be shorter.
inline constexpr std::size_t kPiece = std::size_t{1} << 20;
inline constexpr std::uint32_t kSpoken = 1;  // the protocol
inline constexpr std::size_t kNonce = 16;
inline constexpr std::size_t kDigest = 32;

// Nobody answered, or not in time: to be tried again.
class Unreachable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What comes of waiting for the next assignment: one of the two.
struct Awaited {
  std::optional<v1::Assignment> assignment;
  std::exception_ptr failure;
};

// Calls throw Unreachable, also where the program is asked to stop, and Error(kind peer) where the
// server will not speak with this member. What an answer says is for the caller to check.
class Channel {
 public:
  virtual ~Channel() = default;

  virtual v1::Welcome join(const v1::Hello& hello) = 0;
  virtual v1::Piece fetch(const v1::PieceRequest& request) = 0;
  virtual v1::Receipt open(const v1::Opening& opening) = 0;
  virtual v1::Receipt put(const v1::Portion& portion) = 0;
  virtual v1::Receipt seal(const v1::Sealing& sealing) = 0;
  virtual v1::Receipt leave(const v1::Farewell& farewell) = 0;

  // Asks what to do next without a thread that waits. `done` is called once, on any thread, perhaps
  // before this returns.
  using Done = std::function<void(Awaited)>;
  virtual void next(const v1::Report& report, Done done) = 0;
  // Ends such a wait early; `done` is still called.
  virtual void cancel() = 0;
};

// How long calls may take.
struct CallLimits {
  std::chrono::milliseconds join{10'000};   // and leaving
  std::chrono::milliseconds next{40'000};   // the server answers after 25 seconds
  std::chrono::milliseconds piece{60'000};  // all others
};

// Over TLS, with a connection of its own; another one once a call took too long, since a connection
// may be dead without a word. `stop`, when set, ends calls early.
std::unique_ptr<Channel> open_channel(const std::string& host, std::uint16_t port,
                                      const Credentials& credentials, const std::atomic<bool>* stop,
                                      const CallLimits& limits = {});

}  // namespace winnow::member

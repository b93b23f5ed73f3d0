// Sockets on this machine.
#pragma once

#include <cstdint>

namespace winnow::chaos {

// A descriptor that is closed when this goes.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  ~Socket();
  Socket(Socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int descriptor() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  // Closes it so that the other side sees a reset.
  void reset();
  int release();

 private:
  int descriptor_;
};

// Listening on 127.0.0.1, port 0 for any free one. Throws Failed.
Socket listen_here(std::uint16_t port);
std::uint16_t port_of(const Socket& socket);
// Connected to 127.0.0.1; closed where nobody listens.
Socket connect_here(std::uint16_t port);

// A port that is free and that the system gives to nobody of its own accord, so that a server can
// have it again after its death.
std::uint16_t quiet_port();

}  // namespace winnow::chaos

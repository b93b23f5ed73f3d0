#include "winnow/net/chaos/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <utility>

#include "winnow/net/chaos/outcome.h"

namespace winnow::chaos {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Socket new_socket() {
  return Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

bool bind_here(const Socket& socket, std::uint16_t port) {
  const sockaddr_in address = loopback(port);
  return ::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
         0;
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Socket::reset() {
  if (descriptor_ >= 0) {
    const linger at_once{1, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

int Socket::release() {
  return std::exchange(descriptor_, -1);
}

Socket listen_here(std::uint16_t port) {
  Socket socket = new_socket();
  constexpr int kWaiting = 4096;
  require(socket.open() && bind_here(socket, port) && ::listen(socket.descriptor(), kWaiting) == 0,
          "no port to listen on");
  return socket;
}

std::uint16_t port_of(const Socket& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

Socket connect_here(std::uint16_t port) {
  Socket socket = new_socket();
  const sockaddr_in address = loopback(port);
  if (!socket.open() || ::connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address),
                                  sizeof address) != 0) {
    return Socket();
  }
  return socket;
}

std::uint16_t quiet_port() {
  constexpr int kTries = 200;
  std::random_device chance;
  std::uniform_int_distribution<int> ports(10'000, 29'999);  // below what Linux hands out
  for (int time = 0; time < kTries; ++time) {
    const auto port = static_cast<std::uint16_t>(ports(chance));
    const Socket socket = new_socket();
    if (socket.open() && bind_here(socket, port)) {
      return port;
    }
  }
  throw Failed("no free port was found");
}

}  // namespace winnow::chaos

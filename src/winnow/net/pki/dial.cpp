#include "winnow/net/pki/dial.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

namespace winnow::pki {
namespace {

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

struct Found {
  int error = 0;  // of getaddrinfo()
  std::vector<Address> addresses = {};
};

Found look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  Found found;
  found.error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &list);
  if (found.error != 0) {
    return found;
  }
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    Address address;
    address.size = std::min<socklen_t>(entry->ai_addrlen, sizeof address.bytes);
    std::memcpy(&address.bytes, entry->ai_addr, address.size);
    found.addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  return found;
}

// The system's look-up has no time limit that we could set: it goes on by itself where it takes
// longer.
Found look_up_in_time(const std::string& host, std::uint16_t port, Deadline deadline) {
  if (host.empty() || host.find('\0') != std::string::npos) {
    return {EAI_NONAME};
  }
  if (Found numeric = look_up(host, port, AI_NUMERICHOST); numeric.error == 0) {
    return numeric;
  }
  const auto promise = std::make_shared<std::promise<Found>>();
  std::future<Found> answer = promise->get_future();
  try {
    std::thread([promise, host, port] { promise->set_value(look_up(host, port, 0)); }).detach();
  } catch (const std::system_error&) {
    return {EAI_AGAIN};
  }
  return answer.wait_until(deadline) == std::future_status::ready ? answer.get() : Found{EAI_AGAIN};
}

struct Attempt {
  int descriptor = -1;
  int error = 0;  // errno; ETIMEDOUT: no answer
};

Attempt connect_to(const Address& address, Deadline deadline) {
  const int descriptor =
      ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) {
    return {-1, errno};
  }
  int error = 0;
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address.bytes), address.size) != 0) {
    error = errno;
  }
  if (error == EINPROGRESS) {
    pollfd waiting{descriptor, POLLOUT, 0};
    int ready = 0;
    do {
      ready = ::poll(&waiting, 1, milliseconds_until(deadline));
    } while (ready < 0 && errno == EINTR);
    socklen_t size = sizeof error;
    if (ready <= 0) {
      error = ETIMEDOUT;
    } else if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
  }
  if (error != 0) {
    ::close(descriptor);
    return {-1, error};
  }
  return {descriptor, 0};
}

}  // namespace

int milliseconds_until(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

Line::~Line() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Line dial(const std::string& host, std::uint16_t port, Deadline deadline) {
  const Found found = look_up_in_time(host, port, deadline);
  if (found.error != 0) {
    const bool unknown = found.error == EAI_NONAME || found.error == EAI_NODATA ||
                         found.error == EAI_ADDRFAMILY || found.error == EAI_FAIL;
    return {unknown ? Dialled::unknown_host : Dialled::no_name_server, -1,
            ::gai_strerror(found.error)};
  }
  // A host can have several addresses; a silent one must not take the time of the others.
  bool refused = false;
  bool silent = false;
  int last = 0;
  for (std::size_t i = 0; i < found.addresses.size(); ++i) {
    const auto now = std::chrono::steady_clock::now();
    const auto others = static_cast<int>(found.addresses.size() - i);
    const Attempt attempt = connect_to(found.addresses[i], now + (deadline - now) / others);
    if (attempt.descriptor >= 0) {
      return {Dialled::connected, attempt.descriptor};
    }
    refused = refused || attempt.error == ECONNREFUSED;
    silent = silent || attempt.error == ETIMEDOUT;
    last = attempt.error;
  }
  if (refused) {
    return {Dialled::refused, -1};
  }
  return {silent ? Dialled::no_answer : Dialled::no_way, -1, std::strerror(last)};
}

}  // namespace winnow::pki

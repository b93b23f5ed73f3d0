#include "winnow/net/chaos/proxy.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "winnow/net/chaos/sockets.h"

namespace winnow::chaos {
namespace {

using ProxyClock = std::chrono::steady_clock;
using ProxyTime = ProxyClock::time_point;

constexpr std::size_t kMostAtOnce = 16384;
constexpr std::size_t kMostQueued = std::size_t{4} << 20;
constexpr int kNap = 5;              // milliseconds between two looks
constexpr double kShareOfRate = 20;  // a slow line gives so many portions a second

ProxyClock::duration seconds_of(double seconds) {
  return std::chrono::duration_cast<ProxyClock::duration>(std::chrono::duration<double>(seconds));
}

void unblock(const Socket& socket) {
  ::fcntl(socket.descriptor(), F_SETFL, O_NONBLOCK);
}

}  // namespace

// One direction of a connection.
struct Proxy::Pipe {
  struct Portion {
    ProxyTime due;
    std::string bytes;
  };
  const Socket* from = nullptr;
  const Socket* to = nullptr;
  Weather weather;
  std::atomic<std::int64_t>* counter = nullptr;
  std::int64_t passed = 0;
  std::size_t queued = 0;
  std::deque<Portion> portions = {};
  ProxyTime free_at = {};
  bool ended = false;  // nothing more comes

  bool due() const { return !portions.empty() && portions.front().due <= ProxyClock::now(); }
  bool slow() const { return weather.rate > 0.0 && passed >= weather.slow_from; }
  // A slow line takes no more than it gives.
  bool full() const { return queued >= kMostQueued || (slow() && portions.size() > 1); }
};

struct Proxy::Connection {
  Socket member;
  Socket server;
  Pipe up;
  Pipe down;
  bool stalled = false;
  std::minstd_rand chance;
};

Proxy::Proxy(std::uint16_t target, std::function<Line(std::int64_t)> line)
    : target_(target), line_(std::move(line)) {
  Socket listener = listen_here(0);
  port_ = port_of(listener);
  unblock(listener);
  listener_ = listener.release();
  thread_ = std::thread([this] { run(); });
}

Proxy::~Proxy() {
  stop_ = true;
  thread_.join();
  ::close(listener_);
}

void Proxy::heal() {
  healed_ = true;
  stalled_ = false;
  healing_ = true;
  while (healing_ && !stop_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kNap));
  }
}

void Proxy::run() {
  while (!stop_) {
    std::vector<pollfd> watched{{listener_, POLLIN, 0}};
    for (const auto& connection : connections_) {
      const bool still = stalled_ || connection->stalled;
      const auto wish = [&](const Pipe& in, const Pipe& out) {
        int events = !still && !in.ended && !in.full() ? POLLIN : 0;
        events |= !still && out.due() ? POLLOUT : 0;
        return static_cast<short>(events);
      };
      const auto watch = [&](const Socket& socket, short events) {
        watched.push_back({events == 0 ? -1 : socket.descriptor(), events, 0});
      };
      watch(connection->member, wish(connection->up, connection->down));
      watch(connection->server, wish(connection->down, connection->up));
    }
    ::poll(watched.data(), watched.size(), kNap);
    if (healing_) {
      for (const auto& connection : connections_) {
        connection->member.reset();
        connection->server.reset();
      }
      connections_.clear();
      healing_ = false;
      continue;
    }
    std::size_t place = 0;
    std::erase_if(connections_, [&](const std::unique_ptr<Connection>& connection) {
      const short member = watched[1 + 2 * place].revents;
      const short server = watched[2 + 2 * place].revents;
      ++place;
      if (stalled_ || connection->stalled || serve(*connection, member, server)) {
        return false;
      }
      connection->member.reset();
      connection->server.reset();
      return true;
    });
    if ((watched[0].revents & POLLIN) != 0) {
      accept_one();
    }
  }
}

void Proxy::accept_one() {
  Socket member(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
  if (!member.open()) {
    return;
  }
  Socket server = connect_here(target_);
  if (!server.open()) {
    return;  // nobody is there, and the member sees that
  }
  unblock(member);
  unblock(server);
  auto connection = std::make_unique<Connection>();
  connection->member = std::move(member);
  connection->server = std::move(server);
  const std::int64_t number = made_++;
  const Line line = healed_ ? Line{} : line_(number);
  connection->up = {&connection->member, &connection->server, line.up, &up_};
  connection->down = {&connection->server, &connection->member, line.down, &down_};
  connection->chance.seed(static_cast<unsigned>(number + 1));
  up_ = 0;
  down_ = 0;
  connections_.push_back(std::move(connection));
}

bool Proxy::serve(Connection& connection, short from_member, short from_server) {
  const auto comes = [](short events) { return (events & (POLLIN | POLLHUP | POLLERR)) != 0; };
  if (comes(from_member) && !connection.up.ended && !read(connection, connection.up)) {
    return false;
  }
  if (comes(from_server) && !connection.down.ended) {
    if (!read(connection, connection.down)) {
      ++ended_;
      return false;
    }
    ended_ += connection.down.ended ? 1 : 0;
  }
  if (connection.stalled) {
    return true;
  }
  if (!write(connection.up) || !write(connection.down)) {
    return false;
  }
  // Over once one side has ended and the other has heard everything.
  return !(connection.up.ended && connection.up.portions.empty()) &&
         !(connection.down.ended && connection.down.portions.empty());
}

bool Proxy::read(Connection& connection, Pipe& pipe) {
  const Weather& weather = pipe.weather;
  const bool slow = pipe.slow();
  std::array<char, kMostAtOnce> buffer{};
  const std::size_t most =
      slow ? std::clamp<std::size_t>(static_cast<std::size_t>(weather.rate / kShareOfRate), 1,
                                     kMostAtOnce)
           : kMostAtOnce;
  const ssize_t got = ::recv(pipe.from->descriptor(), buffer.data(), most, 0);
  if (got < 0) {
    return errno == EAGAIN || errno == EINTR;
  }
  if (got == 0) {
    pipe.ended = true;
    return true;
  }
  std::string bytes(buffer.data(), static_cast<std::size_t>(got));
  const std::int64_t begin = pipe.passed;
  pipe.passed += got;
  *pipe.counter = pipe.passed;
  const auto within = [&](std::int64_t place) { return place >= begin && place < pipe.passed; };
  if (within(weather.flip_at)) {
    char& byte = bytes[static_cast<std::size_t>(weather.flip_at - begin)];
    byte = static_cast<char>(byte ^ 0x10);
    ++faults_;
  }
  bool lives = true;
  if (within(weather.cut_at)) {
    bytes.resize(static_cast<std::size_t>(weather.cut_at - begin));
    ++faults_;
    lives = false;
  }
  if (within(weather.stall_at)) {
    connection.stalled = true;
    ++faults_;
    return true;
  }
  const double late = weather.delay + weather.jitter * std::uniform_real_distribution<double>(
                                                           0.0, 1.0)(connection.chance);
  ProxyTime due = ProxyClock::now() + seconds_of(late);
  due = std::max(due, pipe.free_at);  // bytes stay in their order
  pipe.free_at = due;
  if (slow) {
    pipe.free_at += seconds_of(static_cast<double>(bytes.size()) / weather.rate);
  }
  pipe.queued += bytes.size();
  pipe.portions.push_back({due, std::move(bytes)});
  if (!lives) {
    write(pipe);
  }
  return lives;
}

bool Proxy::write(Pipe& pipe) {
  while (pipe.due()) {
    std::string& bytes = pipe.portions.front().bytes;
    if (!bytes.empty()) {
      const ssize_t sent = ::send(pipe.to->descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) {
        return errno == EAGAIN || errno == EINTR;
      }
      pipe.queued -= static_cast<std::size_t>(sent);
      bytes.erase(0, static_cast<std::size_t>(sent));
    }
    if (!bytes.empty()) {
      break;
    }
    pipe.portions.pop_front();
  }
  return true;
}

}  // namespace winnow::chaos

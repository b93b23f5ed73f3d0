#include "winnow/net/chaos/proxy.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "winnow/net/chaos/sockets.h"

namespace winnow::chaos {
namespace {

// Sends back what it gets, on any number of connections, until it goes.
class Echo {
 public:
  Echo() : listener_(listen_here(0)), port_(port_of(listener_)), thread_([this] { run(); }) {}
  ~Echo() {
    ::shutdown(listener_.descriptor(), SHUT_RDWR);
    thread_.join();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  std::uint16_t port() const { return port_; }

 private:
  void run() {
    for (;;) {
      Socket peer(::accept(listener_.descriptor(), nullptr, nullptr));
      if (!peer.open()) {
        return;
      }
      threads_.emplace_back([peer = std::move(peer)] {
        std::array<char, 4096> buffer{};
        for (ssize_t got = 0;
             (got = ::recv(peer.descriptor(), buffer.data(), buffer.size(), 0)) > 0;) {
          ::send(peer.descriptor(), buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL);
        }
      });
    }
  }

  Socket listener_;
  std::uint16_t port_;
  std::vector<std::thread> threads_;
  std::thread thread_;
};

void say(const Socket& socket, const std::string& text) {
  ::send(socket.descriptor(), text.data(), text.size(), MSG_NOSIGNAL);
}

// Up to `count` bytes, or what came until the end or until so many milliseconds were silent.
std::string hear(const Socket& socket, std::size_t count, int patience = 5000) {
  std::string text;
  std::array<char, 4096> buffer{};
  pollfd watched{socket.descriptor(), POLLIN, 0};
  while (text.size() < count && ::poll(&watched, 1, patience) > 0) {
    const ssize_t got = ::recv(socket.descriptor(), buffer.data(), buffer.size(), 0);
    if (got <= 0) {
      break;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

bool is_over(const Socket& socket) {
  char byte = 0;
  pollfd watched{socket.descriptor(), POLLIN, 0};
  return ::poll(&watched, 1, 5000) > 0 && ::recv(socket.descriptor(), &byte, 1, 0) <= 0;
}

double seconds_for(const std::function<void()>& action) {
  const auto begun = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

TEST(Proxy, PassesEverythingInFairWeather) {
  Echo echo;
  Proxy proxy(echo.port(), [](std::int64_t) { return Line{}; });
  const Socket one = connect_here(proxy.port());
  const Socket two = connect_here(proxy.port());
  const std::string long_text(300'000, 'x');
  say(two, "two");
  EXPECT_EQ(hear(two, 3), "two");
  std::thread sender([&] { say(one, long_text); });
  EXPECT_EQ(hear(one, long_text.size()), long_text);
  sender.join();
  EXPECT_EQ(proxy.connections(), 2);
  EXPECT_EQ(proxy.faults(), 0);
}

TEST(Proxy, CutsFlipsAndDelaysWhereItIsTold) {
  Echo echo;
  Proxy proxy(echo.port(), [](std::int64_t number) {
    switch (number) {
      case 0:
        return Line{.up = {.cut_at = 4}};
      case 1:
        return Line{.down = {.flip_at = 1}};
      default:
        return Line{.up = {.delay = 0.2}};
    }
  });
  const Socket cut = connect_here(proxy.port());
  say(cut, "123");
  EXPECT_EQ(hear(cut, 3), "123");
  say(cut, "456");
  EXPECT_TRUE(is_over(cut)) << "after the fourth byte";
  const Socket flipped = connect_here(proxy.port());
  say(flipped, "aaa");
  EXPECT_EQ(hear(flipped, 3), "aqa");
  const Socket late = connect_here(proxy.port());
  EXPECT_GT(seconds_for([&] {
              say(late, "a");
              EXPECT_EQ(hear(late, 1), "a");
            }),
            0.19);
  EXPECT_EQ(proxy.faults(), 2);
}

TEST(Proxy, ASlowLineTakesItsTime) {
  Echo echo;
  Proxy proxy(echo.port(),
              [](std::int64_t) { return Line{.up = {.rate = 20'000, .slow_from = 10'000}}; });
  const Socket socket = connect_here(proxy.port());
  const std::string text(30'000, 'x');
  EXPECT_GT(seconds_for([&] {
              say(socket, text);
              EXPECT_EQ(hear(socket, text.size()), text);
            }),
            0.5)
      << "16 KB pass at once, the rest in 0.7 s";
}

TEST(Proxy, AStalledLineIsOpenAndSilentUntilItIsHealed) {
  Echo echo;
  Proxy proxy(echo.port(), [](std::int64_t) { return Line{}; });
  const Socket socket = connect_here(proxy.port());
  say(socket, "a");
  EXPECT_EQ(hear(socket, 1), "a");
  proxy.stall();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  say(socket, "b");
  EXPECT_EQ(hear(socket, 1, 200), "") << "nothing comes, and it is not over";
  proxy.heal();
  EXPECT_TRUE(is_over(socket));
  const Socket again = connect_here(proxy.port());
  say(again, "c");
  EXPECT_EQ(hear(again, 1), "c");
}

TEST(Proxy, SaysWhenTheServerHasEndedAConnection) {
  const Socket listener = listen_here(0);
  Proxy proxy(port_of(listener), [](std::int64_t) { return Line{}; });
  const Socket member = connect_here(proxy.port());
  {
    const Socket server(::accept(listener.descriptor(), nullptr, nullptr));
    EXPECT_EQ(proxy.ended_by_server(), 0);
  }
  EXPECT_TRUE(is_over(member));
  EXPECT_EQ(proxy.ended_by_server(), 1);
}

}  // namespace
}  // namespace winnow::chaos

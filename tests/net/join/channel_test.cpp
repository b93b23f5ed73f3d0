#include "winnow/net/join/channel.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "run/small_run.h"
#include "winnow/net/pki/authority.h"

namespace winnow::member::channel_test {

// Takes connections and breaks them off, before or after the peer has said something.
class RudeServer {
 public:
  RudeServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    EXPECT_EQ(::listen(socket_, 64), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~RudeServer() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }
  RudeServer(const RudeServer&) = delete;
  RudeServer& operator=(const RudeServer&) = delete;

  std::uint16_t port() const { return port_; }
  int met() const { return met_; }

 private:
  void serve() {
    while (true) {
      const int peer = ::accept(socket_, nullptr, nullptr);
      if (peer < 0) {
        return;
      }
      if (++met_ % 2 == 0) {
        char byte = 0;
        ::recv(peer, &byte, 1, 0);
      }
      ::close(peer);
    }
  }

  int socket_;
  std::uint16_t port_ = 0;
  std::atomic<int> met_ = 0;
  std::thread thread_;
};

// gRPC 1.51 aborts now and then where a channel is destroyed while its connection fails.
TEST(Channel, MayGoInTheMomentInWhichItsConnectionFails) {
  const TestFolder folder;
  Authority authority = Authority::create(folder / "authority", "channels");
  const Credentials own = authority.issue_client("a");
  RudeServer server;
  constexpr int kThreads = 4;
  constexpr int kEach = 40;
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kEach; ++k) {
        const auto channel = open_channel("127.0.0.1", server.port(), own, nullptr);
        try {
          channel->join({});
        } catch (const Unreachable&) {
          ++failed;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failed, kThreads * kEach);
  EXPECT_GE(server.met(), kThreads * kEach);
}

}  // namespace winnow::member::channel_test

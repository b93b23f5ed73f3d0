#include "winnow/report/page_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "testing/errors.h"

namespace winnow::page_server_test {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

int connect_to(std::uint16_t port, in_addr_t address = INADDR_LOOPBACK) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(address);
  where.sin_port = htons(port);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) {
    ::close(socket);
    return -1;
  }
  return socket;
}

void send_text(int socket, const std::string& text) {
  ASSERT_EQ(::send(socket, text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

std::string read_to_end(int socket) {
  std::string text;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::recv(socket, buffer, sizeof buffer, 0)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(size));
  }
  ::close(socket);
  return text;
}

// A server that answers "/" and fails on "/broken", on a thread of its own.
class Served {
 public:
  explicit Served(std::chrono::milliseconds patience = std::chrono::seconds(5))
      : server_(
            0,
            [](const std::string& path, const std::string&) -> PageAnswer {
              if (path == "/broken") {
                throw Error(ErrorKind::run, "summary.json is damaged");
              }
              if (path == "/forbidden") {
                throw std::filesystem::filesystem_error("cannot look", std::error_code());
              }
              return path == "/" ? PageAnswer{"text/html", std::string(300'000, 'x'), "v1"}
                                 : PageAnswer{};
            },
            patience),
        thread_([this] { server_.serve(stop_); }) {}
  ~Served() {
    stop_ = true;
    thread_.join();
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  std::uint16_t port() const { return server_.port(); }

  std::string raw(const std::string& request) const {
    const int socket = connect_to(port());
    send_text(socket, request);
    return read_to_end(socket);
  }
  std::string get(const std::string& path, const std::string& headers = "") const {
    return raw(
        fmt::format("GET {} HTTP/1.1\r\nHost: localhost:{}\r\n{}\r\n", path, port(), headers));
  }

 private:
  std::atomic<bool> stop_{false};
  PageServer server_;
  std::thread thread_;
};

TEST(PageServer, AnswersAGetWithTheWholePage) {
  const Served served;
  const std::string answer = served.get("/");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
                                 "Content-Length: 300000\r\nETag: \"v1\"\r\n"));
  EXPECT_THAT(answer, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("Access-Control-Allow-Origin")));
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, 300'000U);
  EXPECT_THAT(served.get("/?query"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(PageServer, WhatTheBrowserHasAlreadyIsNotSentAgain) {
  const Served served;
  const std::string same = served.get("/", "If-None-Match: \"v1\"\r\n");
  EXPECT_THAT(same, StartsWith("HTTP/1.1 304 Not Modified\r\n"));
  EXPECT_THAT(same, EndsWith("\r\n\r\n"));
  EXPECT_THAT(served.get("/", "If-None-Match: \"v0\"\r\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(PageServer, RefusesOtherHosts) {
  const Served served;
  for (const std::string& host :
       {std::string("evil.example"), fmt::format("evil.example:{}", served.port()),
        std::string("localhost"), std::string("localhost:1"),
        fmt::format("localhost:{}.evil.example", served.port())}) {
    EXPECT_THAT(served.raw(fmt::format("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", host)),
                StartsWith("HTTP/1.1 403 Forbidden\r\n"))
        << host;
  }
  EXPECT_THAT(served.raw("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 403 Forbidden\r\n"));
  EXPECT_THAT(served.raw(fmt::format("GET / HTTP/1.1\r\nhost:127.0.0.1:{}\r\n\r\n", served.port())),
              StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(PageServer, RefusesWhatIsNotASimpleGet) {
  const Served served;
  const std::string host = fmt::format("Host: localhost:{}\r\n", served.port());
  for (const char* method : {"POST", "PUT", "DELETE", "HEAD", "OPTIONS"}) {
    EXPECT_THAT(served.raw(fmt::format("{} / HTTP/1.1\r\n{}\r\n", method, host)),
                StartsWith("HTTP/1.1 405 Method Not Allowed\r\nAllow: GET\r\n"))
        << method;
  }
  EXPECT_THAT(served.get("/elsewhere"), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(served.get("/../etc/passwd"), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  for (const std::string& wrong :
       {std::string("hello\r\n\r\n"), fmt::format("GET http://a/ HTTP/1.1\r\n{}\r\n", host),
        fmt::format("GET / HTTP/1.1\r\n{0}{0}\r\n", host),
        fmt::format("GET / HTTP/1.1\r\n{}no colon\r\n\r\n", host)}) {
    EXPECT_THAT(served.raw(wrong), StartsWith("HTTP/1.1 400 Bad Request\r\n")) << wrong;
  }
}

TEST(PageServer, RefusesARequestThatIsTooLong) {
  const Served served;
  EXPECT_THAT(served.get("/", fmt::format("X: {}\r\n", std::string(40'000, 'x'))),
              StartsWith("HTTP/1.1 431 "));
}

TEST(PageServer, ASlowVisitorDoesNotKeepOthersWaiting) {
  const Served served;
  const int slow = connect_to(served.port());
  send_text(slow, "GET / HT");
  EXPECT_THAT(served.get("/"), StartsWith("HTTP/1.1 200 OK\r\n"));
  ::close(slow);
}

TEST(PageServer, AVisitorWhoTricklesIsSentAway) {
  const Served served(std::chrono::milliseconds(150));
  const int slow = connect_to(served.port());
  int sent = 0;
  while (sent < 200 && ::send(slow, "x", 1, MSG_NOSIGNAL) == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++sent;
  }
  ::close(slow);
  EXPECT_LT(sent, 200) << "the server closes although something keeps coming";
}

TEST(PageServer, AnErrorIsToldAndTheServerGoesOn) {
  const Served served;
  EXPECT_THAT(served.get("/broken"), EndsWith("\r\n\r\nsummary.json is damaged\n"));
  EXPECT_THAT(served.get("/forbidden"), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(served.get("/"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(PageServer, ListensOnTheLoopbackAddressOnly) {
  const Served served;
  EXPECT_EQ(connect_to(served.port(), INADDR_LOOPBACK + 1), -1);  // 127.0.0.2
}

TEST(PageServer, APortThatIsTakenIsAnError) {
  const Served served;
  EXPECT_EQ(error_text([&] { PageServer(served.port(), {}); }),
            fmt::format("cannot serve on 127.0.0.1:{}: Address already in use | choose another "
                        "--port, or --port 0 for any free one",
                        served.port()));
}

}  // namespace winnow::page_server_test

#include "winnow/report/page_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <thread>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLargestRequest = 32768;  // browsers send the cookies of all ports
constexpr std::size_t kMostConnections = 64;
constexpr std::chrono::seconds kLongestAnswer{60};  // however steadily it is taken
constexpr int kPollMilliseconds = 200;              // how late a stop may be noticed

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

struct Request {
  std::string method;
  std::string path;
  std::map<std::string, std::string> headers;  // names in lower case
};

// Nothing for what is not a request, or says the same thing twice.
std::optional<Request> parse(std::string_view text) {
  std::vector<std::string> lines = split(text.substr(0, text.find("\r\n\r\n")), '\n');
  const std::vector<std::string> words = split(trim(lines.front()), ' ');
  if (words.size() != 3 || !words[1].starts_with('/') || !words[2].starts_with("HTTP/1.")) {
    return std::nullopt;
  }
  Request request{words[0], words[1].substr(0, words[1].find('?')), {}};
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::size_t colon = lines[i].find(':');
    if (colon == 0 || colon == std::string::npos ||
        !request.headers
             .emplace(lower(std::string_view(lines[i]).substr(0, colon)),
                      trim(std::string_view(lines[i]).substr(colon + 1)))
             .second) {
      return std::nullopt;
    }
  }
  return request;
}

// The page may run what stands in it and ask this server for data, nothing else.
std::string response(std::string_view status, const PageAnswer& answer) {
  const std::string etag = answer.etag.empty() ? "" : fmt::format("ETag: \"{}\"\r\n", answer.etag);
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\n{}"
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n"
      "X-Frame-Options: DENY\r\nConnection: close\r\n\r\n{}",
      status, answer.type, answer.body.size(), etag, answer.body);
}

std::string refusal(std::string_view status, std::string_view why) {
  return response(status, {"text/plain", fmt::format("{}\n", why), ""});
}

bool is_ours(const std::string& host, std::uint16_t port) {
  const std::string name = lower(host);
  if (port == 80 && (name == "127.0.0.1" || name == "localhost")) {
    return true;  // browsers leave the usual port out
  }
  return name == fmt::format("127.0.0.1:{}", port) || name == fmt::format("localhost:{}", port);
}

}  // namespace

// Reads a request, then writes the answer, then waits until the other side has closed: closing
// first could take the answer away from one that is still sending.
struct PageServer::Connection {
  int socket = -1;
  Clock::time_point begun;
  Clock::time_point deadline;
  std::string in = {};
  std::string out = {};
  std::size_t written = 0;

  bool writes() const { return written < out.size(); }
};

PageServer::PageServer(std::uint16_t port, PageHandler handler, std::chrono::milliseconds patience)
    : handler_(std::move(handler)), patience_(patience) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  socklen_t size = sizeof address;
  auto* where = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || ::bind(listener_, where, size) != 0 || ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, where, &size) != 0) {
    const int reason = errno;
    ::close(listener_);
    throw Error(ErrorKind::run,
                fmt::format("cannot serve on 127.0.0.1:{}: {}", port, std::strerror(reason)),
                "choose another --port, or --port 0 for any free one");
  }
  port_ = ntohs(address.sin_port);
}

PageServer::~PageServer() {
  ::close(listener_);
}

void PageServer::serve(const std::atomic<bool>& stop) {
  std::vector<Connection> connections;
  while (!stop) {
    std::vector<pollfd> waited;
    for (const Connection& connection : connections) {
      const auto events = static_cast<short>(connection.writes() ? POLLOUT : POLLIN);
      waited.push_back({connection.socket, events, 0});
    }
    const bool full = connections.size() >= kMostConnections;
    waited.push_back({full ? -1 : listener_, POLLIN, 0});
    if (::poll(waited.data(), waited.size(), kPollMilliseconds) < 0) {
      continue;  // a signal; it may have set `stop`
    }
    std::vector<Connection> kept;
    for (std::size_t i = 0; i < connections.size(); ++i) {
      if (proceed(connections[i], waited[i].revents != 0)) {
        kept.push_back(std::move(connections[i]));
      } else {
        ::close(connections[i].socket);
      }
    }
    connections = std::move(kept);
    if (waited.back().revents != 0) {
      accept_one(connections);
    }
  }
  for (const Connection& connection : connections) {
    ::close(connection.socket);
  }
}

void PageServer::accept_one(std::vector<Connection>& connections) const {
  const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (socket >= 0) {
    const Clock::time_point now = Clock::now();
    connections.push_back({.socket = socket, .begun = now, .deadline = now + patience_});
  } else if (errno == EMFILE || errno == ENFILE) {
    // The caller stays in the queue, and poll would say so at once again and again.
    std::this_thread::sleep_for(std::chrono::milliseconds(kPollMilliseconds));
  }
}

bool PageServer::proceed(Connection& connection, bool ready) const {
  if (Clock::now() >= connection.deadline) {
    return false;
  }
  if (!ready) {
    return true;
  }
  if (connection.writes()) {
    const std::string_view rest = std::string_view(connection.out).substr(connection.written);
    const ssize_t sent = ::send(connection.socket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    connection.written += static_cast<std::size_t>(sent);
    connection.deadline = std::min(Clock::now() + patience_, connection.begun + kLongestAnswer);
    if (!connection.writes()) {
      ::shutdown(connection.socket, SHUT_WR);
    }
    return true;
  }
  char buffer[4096];
  const ssize_t got = ::recv(connection.socket, buffer, sizeof buffer, 0);
  if (got <= 0) {
    return got < 0 && (errno == EAGAIN || errno == EINTR);
  }
  if (!connection.out.empty()) {
    return true;  // answered already: what still comes is dropped
  }
  connection.in.append(buffer, static_cast<std::size_t>(got));
  if (connection.in.size() > kLargestRequest) {
    connection.out = refusal("431 Request Header Fields Too Large", "the request is too long");
  } else if (connection.in.find("\r\n\r\n") != std::string::npos) {
    connection.out = answer_request(connection.in, port_, handler_);
  }
  return true;
}

std::string answer_request(const std::string& text, std::uint16_t port,
                           const PageHandler& handler) {
  const std::optional<Request> request = parse(text);
  if (!request) {
    return refusal("400 Bad Request", "this is not an HTTP request");
  }
  const auto host = request->headers.find("host");
  if (host == request->headers.end() || !is_ours(host->second, port)) {
    return refusal("403 Forbidden", fmt::format("this page is served to http://127.0.0.1:{0}/ and "
                                                "http://localhost:{0}/ only",
                                                port));
  }
  if (request->method != "GET") {
    return refusal("405 Method Not Allowed\r\nAllow: GET", "only GET is answered");
  }
  const auto known = request->headers.find("if-none-match");
  std::string etag = known == request->headers.end() ? "" : known->second;
  std::erase(etag, '"');
  try {
    PageAnswer page = handler(request->path, etag);
    if (page.type.empty()) {
      return refusal("404 Not Found", "there is no such page");
    }
    if (!etag.empty() && page.etag == etag) {
      page.body.clear();
      return response("304 Not Modified", page);
    }
    return response("200 OK", page);
  } catch (const std::exception& error) {
    return refusal("500 Internal Server Error", error.what());
  }
}

}  // namespace winnow

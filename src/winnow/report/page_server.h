// Serves a page to browsers on the same machine, and to nobody else.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace winnow {

struct PageAnswer {
  std::string type;  // of the content, such as "text/html"
  std::string body;
  std::string etag;  // a request that names it is answered 304, without the body; "" for none
};

// What to answer for a path ("/data.json"). `etag` is what the browser has already, or "": a
// handler that would answer the same may leave the body out. No type means that there is no such
// page; an exception becomes status 500 with its text.
using PageHandler = std::function<PageAnswer(const std::string& path, const std::string& etag)>;

// The whole answer to the bytes of a request, for a server on `port`. Never throws but for lack of
// memory: what is wrong with the request is the answer.
std::string answer_request(const std::string& request, std::uint16_t port,
                           const PageHandler& handler);

// HTTP/1.1 on 127.0.0.1. Only GET; only with a Host of 127.0.0.1 or localhost and this port, so
// that no web page elsewhere can reach it through a name of its own; one request per connection,
// 32 KiB and `patience` for it, at most 64 connections at a time.
class PageServer {
 public:
  // Port 0 takes any free one. Throws Error(kind run) when the port is taken.
  PageServer(std::uint16_t port, PageHandler handler,
             std::chrono::milliseconds patience = std::chrono::seconds(5));
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  std::uint16_t port() const { return port_; }

  // Answers on this thread until `stop` is set or a signal sets it.
  void serve(const std::atomic<bool>& stop);

 private:
  struct Connection;
  void accept_one(std::vector<Connection>& connections) const;
  // False when the connection is done with.
  bool proceed(Connection& connection, bool ready) const;

  int listener_ = -1;
  std::uint16_t port_ = 0;
  PageHandler handler_;
  std::chrono::milliseconds patience_;  // for a request, and between two pieces taken
};

}  // namespace winnow

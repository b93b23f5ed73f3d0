// A line that can be bad: a TCP proxy on this machine between a member and its server.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace winnow::chaos {

// What happens to the bytes of one direction. Places count the bytes of a connection from 0; -1 is
// never.
struct Weather {
  double delay = 0.0;          // seconds that every byte is late
  double jitter = 0.0;         // and up to so many more, by chance
  double rate = 0.0;           // bytes a second; 0: as many as there are
  std::int64_t slow_from = 0;  // from here on the rate holds
  std::int64_t cut_at = -1;    // here both sides see the connection reset
  std::int64_t stall_at = -1;  // from here on nothing passes any more, in both directions
  std::int64_t flip_at = -1;   // this byte arrives with another bit
};

struct Line {
  Weather up = {};    // to the server
  Weather down = {};  // from it
};

// Lives from its making until it goes, with a thread of its own.
class Proxy {
 public:
  // `line`: what the n-th connection, from 0 on, is like; called on the proxy's thread.
  Proxy(std::uint16_t target, std::function<Line(std::int64_t connection)> line);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  std::uint16_t port() const { return port_; }
  std::int64_t connections() const { return made_; }
  // Bytes that came in for the server, and from it, of the latest connection.
  std::int64_t up() const { return up_; }
  std::int64_t down() const { return down_; }
  // Connections that met their fault: were cut, stalled or got a wrong bit.
  std::int64_t faults() const { return faults_; }
  // Connections that the server has ended.
  std::int64_t ended_by_server() const { return ended_; }

  // From now on nothing passes on any connection, and none is ended.
  void stall() { stalled_ = true; }
  // All connections are reset, and later ones have no faults.
  void heal();

 private:
  struct Pipe;
  struct Connection;
  void run();
  void accept_one();
  // False where the connection is over.
  bool serve(Connection& connection, short from_member, short from_server);
  bool read(Connection& connection, Pipe& pipe);
  bool write(Pipe& pipe);

  std::uint16_t target_;
  std::function<Line(std::int64_t connection)> line_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<std::int64_t> made_ = 0;
  std::atomic<std::int64_t> up_ = 0;
  std::atomic<std::int64_t> down_ = 0;
  std::atomic<std::int64_t> faults_ = 0;
  std::atomic<std::int64_t> ended_ = 0;
  std::atomic<bool> stalled_ = false;
  std::atomic<bool> healing_ = false;
  std::atomic<bool> healed_ = false;
  std::atomic<bool> stop_ = false;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace winnow::chaos

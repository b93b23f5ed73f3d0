// A TCP connection to a host by its name, or the reason why there is none.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace winnow::pki {

using Deadline = std::chrono::steady_clock::time_point;

// Milliseconds until then, for poll(); 0 when it has passed.
int milliseconds_until(Deadline deadline);

enum class Dialled {
  connected,
  unknown_host,    // no such name
  no_name_server,  // the name could not be looked up
  refused,         // nothing listens
  no_answer,
  no_way,  // no route, no network
};

// A socket that does not block, closed when the object goes.
class Line {
 public:
  Line(Dialled outcome, int descriptor, std::string reason = "")
      : outcome_(outcome), descriptor_(descriptor), reason_(std::move(reason)) {}
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  Dialled outcome() const { return outcome_; }
  int descriptor() const { return descriptor_; }
  const std::string& reason() const { return reason_; }  // the system's word for it

 private:
  Dialled outcome_;
  int descriptor_;
  std::string reason_;
};

Line dial(const std::string& host, std::uint16_t port, Deadline deadline);

}  // namespace winnow::pki

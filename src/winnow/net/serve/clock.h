// Time as the server takes it, injected so that tests need not wait.
#pragma once

#include <chrono>
#include <cstdint>

namespace winnow::net {

class Clock {
 public:
  virtual ~Clock() = default;
  // Milliseconds that only ever grow, for everything that is waited for.
  virtual std::int64_t now() const = 0;
  // Milliseconds since 1970, for what is written down.
  virtual std::int64_t wall() const = 0;
};

class SystemClock final : public Clock {
 public:
  std::int64_t now() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  std::int64_t wall() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace winnow::net

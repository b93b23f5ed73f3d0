// A world in memory that several processes of a machine read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "winnow/experiment/world.h"

namespace winnow {

// The memory has no name in any file system: it is gone with the last process that reads it,
// however that ends. Once written it cannot be changed by anybody.
class SharedWorld {
 public:
  // Copies the world there; nothing where the machine gives no such memory.
  [[nodiscard]] static std::optional<SharedWorld> of(const World& world);
  // The world at an address that another process has told, with its images read where they are;
  // nothing where this process cannot reach them.
  [[nodiscard]] static std::optional<World> at(const std::string& address);

  ~SharedWorld();
  SharedWorld(SharedWorld&& other) noexcept;
  SharedWorld& operator=(SharedWorld&& other) noexcept;

  // Where others find it as long as this object is there. A world that is open stays.
  std::string address() const;

 private:
  SharedWorld(int file, std::uint64_t key, std::size_t size)
      : file_(file), key_(key), size_(size) {}

  int file_;
  std::uint64_t key_;  // by which another process knows that it has found the right memory
  std::size_t size_;
};

}  // namespace winnow

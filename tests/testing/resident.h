// How much of a piece of memory this process has in its pages.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

namespace winnow {

inline std::int64_t resident_bytes(const void* start, std::int64_t bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(start);
  const std::uint64_t first = begin / page;
  const std::uint64_t last = (begin + static_cast<std::uint64_t>(bytes) - 1) / page;
  std::vector<std::uint64_t> entries(last - first + 1);
  const std::size_t size = entries.size() * sizeof(std::uint64_t);
  const int map = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::pread(map, entries.data(), size, static_cast<off_t>(first * sizeof(std::uint64_t))),
            static_cast<ssize_t>(size));
  ::close(map);
  std::int64_t resident = 0;
  for (const std::uint64_t entry : entries) {
    resident += static_cast<std::int64_t>((entry >> 63U) * page);
  }
  return resident;
}

}  // namespace winnow

#include "winnow/net/serve/fail_point.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string>

#include "winnow/base/error.h"

namespace winnow::net {
namespace {

constexpr std::array<std::string_view, 7> kFailPoints{kBeforeOrder,    kAfterOrder,   kAfterPiece,
                                                      kAfterRename,    kAfterVerdict, kAfterFold,
                                                      kAfterCheckpoint};
constexpr int kExitKilled = 137;

}  // namespace

FailPoint fail_point_of_environment() {
  const char* set = std::getenv("WINNOW_FAILPOINT");  // NOLINT(concurrency-mt-unsafe)
  if (set == nullptr || *set == '\0') {
    return [](std::string_view) {};
  }
  std::string wanted = set;
  int times = 1;
  if (const std::size_t colon = wanted.find(':'); colon != std::string::npos) {
    const char* end = wanted.data() + wanted.size();
    const auto [rest, error] = std::from_chars(wanted.data() + colon + 1, end, times);
    times = error == std::errc() && rest == end ? times : 0;
    wanted.resize(colon);
  }
  if (std::ranges::count(kFailPoints, wanted) == 0 || times < 1) {
    throw Error(ErrorKind::usage, fmt::format("WINNOW_FAILPOINT = \"{}\": no such place", set));
  }
  return [wanted, left = std::make_shared<std::atomic<int>>(times)](std::string_view name) {
    if (name == wanted && --*left == 0) {
      ::_exit(kExitKilled);
    }
  };
}

}  // namespace winnow::net

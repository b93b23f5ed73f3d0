#include "winnow/cli/sibling.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "winnow/base/error.h"

namespace winnow {

void become(const Program& program, const std::string& name, const std::string& what,
            const std::string& hint) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path other = fs::read_symlink("/proc/self/exe", failed).parent_path() / name;
  if (!fs::exists(other, failed)) {
    throw Error(ErrorKind::usage, fmt::format("{}: {} is not there", what, other.string()), hint);
  }
  ::execv(other.c_str(), const_cast<char* const*>(program.argv));
  throw Error(ErrorKind::run,
              fmt::format("cannot start {}: {}", other.string(), std::strerror(errno)));
}

}  // namespace winnow

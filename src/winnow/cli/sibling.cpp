#include "winnow/cli/sibling.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "winnow/base/error.h"

namespace winnow {

bool has_sibling(const std::string& name) {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  return self.filename() == "winnow" && std::filesystem::exists(self.parent_path() / name, failed);
}

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

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

namespace {

namespace fs = std::filesystem;

fs::path this_program() {
  std::error_code failed;
  return fs::read_symlink("/proc/self/exe", failed);
}

// Another program that can be started; a link to this one would start itself again and again.
bool can_become(const fs::path& other) {
  std::error_code failed;
  return fs::is_regular_file(other, failed) && ::access(other.c_str(), X_OK) == 0 &&
         !fs::equivalent(other, this_program(), failed);
}

}  // namespace

bool has_sibling(const std::string& name) {
  const fs::path self = this_program();
  return self.filename() == "winnow" && can_become(self.parent_path() / name);
}

void become(const Program& program, const std::string& name, const std::string& what,
            const std::string& hint) {
  const fs::path other = this_program().parent_path() / name;
  if (!can_become(other)) {
    throw Error(ErrorKind::usage, fmt::format("{}: {} is not there", what, other.string()), hint);
  }
  ::execv(other.c_str(), const_cast<char* const*>(program.argv));
  throw Error(ErrorKind::run,
              fmt::format("cannot start {}: {}", other.string(), std::strerror(errno)));
}

}  // namespace winnow

#include "winnow/base/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "winnow/base/error.h"

namespace winnow {
namespace {

// `name` is what the child is called in its own argument list.
pid_t start(const std::string& file, const std::string& name,
            const std::vector<std::string>& arguments, const std::filesystem::path& log) {
  // Everything that allocates happens before the fork.
  std::vector<std::string> words{name};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  const int output =
      ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  if (output < 0) {
    throw Error(ErrorKind::run, fmt::format("cannot write {}: {}", log.string(), strerror(errno)));
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) {
      ::_exit(kExitInterrupted);
    }
    ::signal(SIGPIPE, SIG_DFL);  // an ignored signal would stay ignored in the new program
    ::signal(SIGXFSZ, SIG_DFL);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::execvp(file.c_str(), argv.data());
    ::_exit(127);
  }
  ::close(output);
  if (child < 0) {
    throw Error(ErrorKind::run, fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  return child;
}

}  // namespace

pid_t start_child(const std::vector<std::string>& arguments, const std::filesystem::path& log) {
  return start("/proc/self/exe", "winnow", arguments, log);
}

pid_t start_program(const std::string& program, const std::vector<std::string>& arguments,
                    const std::filesystem::path& log) {
  return start(program, program, arguments, log);
}

std::optional<int> poll_child(pid_t child) {
  int status = 0;
  const pid_t ended = ::waitpid(child, &status, WNOHANG);
  if (ended == 0) {
    return std::nullopt;
  }
  if (ended < 0) {
    return 127;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace winnow

// Drives the real program: starts it, sends it signals, and looks at what it printed and left
// behind.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "run/small_run.h"
#include "winnow/base/params.h"

namespace winnow {

// The long form of tests that start the program over and over, which scripts/nightly runs.
inline bool all_of_it() {
  return std::getenv("WINNOW_TEST_ALL") != nullptr;
}

using Words = std::vector<std::string>;

// A process that has ended.
struct Ended {
  int code = -1;  // exit code, or minus the signal that killed it
  std::string out;
  std::string err;

  Json json() const {
    Json parsed = Json::parse(out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << "not JSON: " << out;
    return parsed;
  }
};

// Where and how the program runs.
struct Place {
  std::filesystem::path folder;
  Words environment = {};           // NAME=VALUE
  std::uintmax_t largest_file = 0;  // in bytes; 0: no limit
  int ignored = 0;                  // a signal that it is started to ignore, as nohup does
  std::string output = {};          // file for standard output; empty: it is captured
  std::string errors = {};          // the same for standard error; "-": it is closed
};

// Argument and environment lists for exec, made before the fork.
class ExecLists {
 public:
  ExecLists(const Words& arguments, const Words& environment) : words_{"winnow"} {
    words_.insert(words_.end(), arguments.begin(), arguments.end());
    variables_ = environment;
    const auto is_given = [&](const std::string& text) {
      const std::string name = text.substr(0, text.find('=') + 1);
      return std::ranges::any_of(environment,
                                 [&](const std::string& given) { return given.starts_with(name); });
    };
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string text = *variable;
      // Under the arithmetic of the tests the program need not start itself again.
      if (!is_given(text) && !text.starts_with("NO_COLOR=") &&
          (!text.starts_with("WINNOW_") || text.starts_with("WINNOW_ARITHMETIC="))) {
        variables_.push_back(text);
      }
    }
    for (std::string& word : words_) {
      argv_.push_back(word.data());
    }
    for (std::string& variable : variables_) {
      envp_.push_back(variable.data());
    }
    argv_.push_back(nullptr);
    envp_.push_back(nullptr);
  }

  [[noreturn]] void exec() const {
    ::execve(WINNOW_PROGRAM, argv_.data(), envp_.data());
    ::_exit(127);
  }

 private:
  Words words_;
  Words variables_;
  std::vector<char*> argv_;
  std::vector<char*> envp_;
};

// A running program. What it prints is kept in memory, so that folders hold only what it wrote.
class Process {
 public:
  Process(const Words& arguments, const Place& place)
      : out_(::memfd_create("out", MFD_CLOEXEC)), err_(::memfd_create("err", MFD_CLOEXEC)) {
    const ExecLists lists(arguments, place.environment);
    const auto stream = [](const std::string& file, int captured) {
      return file.empty() ? captured : ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
    };
    const int output = stream(place.output, out_);
    const int errors = stream(place.errors == "-" ? "" : place.errors, err_);
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(output, STDOUT_FILENO);
      ::dup2(errors, STDERR_FILENO);
      if (place.errors == "-") {
        ::close(STDERR_FILENO);
      }
      if (place.largest_file > 0) {
        const rlimit limit{place.largest_file, place.largest_file};
        ::setrlimit(RLIMIT_FSIZE, &limit);
      }
      if (place.ignored != 0) {
        ::signal(place.ignored, SIG_IGN);
      }
      if (::chdir(place.folder.c_str()) != 0) {
        ::_exit(126);
      }
      lists.exec();
    }
    EXPECT_GT(child_, 0) << "cannot fork";
  }
  ~Process() {
    if (!ended()) {
      send(SIGKILL);
      wait();
    }
    ::close(out_);
    ::close(err_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return child_; }
  void send(int signal) const { ::kill(child_, signal); }

  bool ended() {
    int status = 0;
    if (!code_ && ::waitpid(child_, &status, WNOHANG) == child_) {
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    return code_.has_value();
  }

  Ended wait() {
    using Clock = std::chrono::steady_clock;
    // Long, for slow machines that do other work beside the tests.
    const auto deadline = Clock::now() + std::chrono::minutes(10);
    while (!ended()) {
      if (Clock::now() > deadline && !told_) {
        ADD_FAILURE() << "the program did not end in ten minutes";
        send(SIGKILL);
        told_ = true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    return {*code_, content(out_), content(err_)};
  }

 private:
  static std::string content(int descriptor) {
    std::string text(static_cast<std::size_t>(::lseek(descriptor, 0, SEEK_END)), '\0');
    const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
  }

  int out_;
  int err_;
  pid_t child_ = -1;
  std::optional<int> code_;
  bool told_ = false;  // that it takes too long
};

inline Ended winnow_program(const Words& arguments, const Place& place) {
  return Process(arguments, place).wait();
}

// What the program shows on a terminal of its own.
inline std::string on_terminal(const Words& arguments, const Place& place) {
  const ExecLists lists(arguments, place.environment);
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    if (::chdir(place.folder.c_str()) != 0) {
      ::_exit(126);
    }
    lists.exec();
  }
  std::string shown;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::read(terminal, buffer, sizeof buffer)) > 0;) {
    shown.append(buffer, static_cast<std::size_t>(size));
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return shown;
}

// Waits until something holds, or a minute has passed.
template <typename Condition>
bool wait_until(const Condition& condition) {
  for (int turn = 0; turn < 12'000; ++turn) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

inline std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

inline Words names_in(const std::filesystem::path& folder) {
  Words names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A folder with the small experiment in it, where the program is run.
class Workshop {
 public:
  explicit Workshop(const std::string& more = "") {
    write_file_whole(folder_ / "e.toml", small_toml() + more);
  }

  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  Place place(Words environment = {}) const { return {folder_.path(), std::move(environment)}; }
  Ended call(const Words& arguments) const { return winnow_program(arguments, place()); }

  // Calls and expects success.
  Ended done(const Words& arguments) const {
    Ended ended = call(arguments);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended;
  }

 private:
  TestFolder folder_;
};

}  // namespace winnow

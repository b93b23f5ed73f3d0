// A process of this program that a row starts and, one way or another, ends.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace winnow::chaos {

// Waits until it is so. Throws Failed, "... did not happen in N s", and Interrupted when `stop` is
// set.
void await(const std::function<bool()>& condition, double seconds, const std::string& what,
           const std::atomic<bool>* stop);

struct Launch {
  std::vector<std::string> environment = {};  // NAME=VALUE
  std::vector<std::string> before = {};       // words before the program, "ip netns exec NAME"
  std::int64_t largest_file = 0;              // in bytes, as a full disk would have it; 0: any
  std::int64_t open_files = 0;                // as many as `ulimit -n` lets it begin with; 0: any
};

// Killed and waited for when this goes. What it prints is in its log.
class Process {
 public:
  Process(const std::vector<std::string>& arguments, std::filesystem::path log,
          const std::atomic<bool>* stop, const Launch& how = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return child_; }
  // Its exit code, 128 + signal where it was killed; nothing while it runs.
  std::optional<int> code();
  // Waits for its end. Throws Failed when that takes longer.
  int wait(double seconds);
  void signal(int number) const;
  void kill();

  std::string said() const;
  // Waits until it has printed that. Throws Failed with its last words where it ends before.
  void await_words(const std::string& words, double seconds);

  // How large its files may be from now on.
  void limit_files(std::int64_t bytes) const;
  // The most memory that it has held so far, in bytes.
  std::int64_t peak_memory() const;

 private:
  std::filesystem::path log_;
  const std::atomic<bool>* stop_;
  pid_t child_ = -1;
  std::optional<int> code_;
};

}  // namespace winnow::chaos

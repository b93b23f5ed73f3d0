#include "winnow/net/chaos/process.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "winnow/base/child.h"
#include "winnow/base/files.h"
#include "winnow/net/chaos/outcome.h"
#include "winnow/train/lane.h"

namespace winnow::chaos {
namespace {

constexpr std::chrono::milliseconds kGlanceOfChaos{5};
constexpr double kLongestDeath = 20.0;  // seconds that a killed process may take to go
constexpr std::size_t kLastWords = 300;

std::string end_of(const std::string& text) {
  std::string end = text.substr(text.size() > kLastWords ? text.size() - kLastWords : 0);
  for (char& letter : end) {
    letter = letter == '\n' || letter == '\r' ? ' ' : letter;
  }
  return end;
}

}  // namespace

void await(const std::function<bool()>& condition, double seconds, const std::string& what,
           const std::atomic<bool>* stop) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!condition()) {
    if (stop != nullptr && stop->load()) {
      throw Interrupted();
    }
    if (std::chrono::steady_clock::now() > end) {
      throw Failed(fmt::format("{} did not happen in {:.0f} s", what, seconds));
    }
    std::this_thread::sleep_for(kGlanceOfChaos);
  }
}

Process::Process(const std::vector<std::string>& arguments, std::filesystem::path log,
                 const std::atomic<bool>* stop, const Launch& how)
    : log_(std::move(log)), stop_(stop) {
  std::vector<std::string> words = how.before;
  words.emplace_back("env");
  words.insert(words.end(), how.environment.begin(), how.environment.end());
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  words.insert(words.end(), arguments.begin(), arguments.end());
  child_ = start_program(words.front(), {words.begin() + 1, words.end()}, log_);
  if (how.largest_file > 0) {
    limit_files(how.largest_file);
  }
  if (how.open_files > 0) {
    rlimit limit{};
    ::prlimit(child_, RLIMIT_NOFILE, nullptr, &limit);
    limit.rlim_cur = static_cast<rlim_t>(how.open_files);
    ::prlimit(child_, RLIMIT_NOFILE, &limit, nullptr);
  }
}

Process::~Process() {
  if (!code()) {
    signal(SIGKILL);
    while (!code()) {
      std::this_thread::sleep_for(kGlanceOfChaos);
    }
  }
}

std::optional<int> Process::code() {
  if (!code_) {
    code_ = poll_child(child_);
  }
  return code_;
}

int Process::wait(double seconds) {
  const std::string what = fmt::format("the end of {}", log_.stem().string());
  try {
    await([this] { return code().has_value(); }, seconds, what, stop_);
  } catch (const Failed& failed) {
    throw Failed(fmt::format("{}; it said last: {}", failed.what(), end_of(said())));
  }
  return *code_;
}

void Process::signal(int number) const {
  if (!code_) {
    ::kill(child_, number);
  }
}

void Process::kill() {
  signal(SIGKILL);
  wait(kLongestDeath);
}

std::string Process::said() const {
  return read_file(log_);
}

void Process::await_words(const std::string& words, double seconds) {
  await(
      [&] {
        if (said().find(words) != std::string::npos) {
          return true;
        }
        if (code()) {
          throw Failed(fmt::format("{} ended with {} and said: {}", log_.stem().string(), *code_,
                                   end_of(said())));
        }
        return false;
      },
      seconds, fmt::format("'{}' of {}", words, log_.stem().string()), stop_);
}

void Process::limit_files(std::int64_t bytes) const {
  rlimit limit{};
  ::prlimit(child_, RLIMIT_FSIZE, nullptr, &limit);
  limit.rlim_cur = static_cast<rlim_t>(bytes);
  require(::prlimit(child_, RLIMIT_FSIZE, &limit, nullptr) == 0, "no limit could be set on files");
}

std::int64_t Process::peak_memory() const {
  std::ifstream status(fmt::format("/proc/{}/status", child_));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) {
      return std::stoll(line.substr(6)) * 1024;
    }
  }
  throw Failed("its memory could not be read");
}

}  // namespace winnow::chaos

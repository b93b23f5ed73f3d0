// Runs every target over every file of its corpus, without libFuzzer: how a build with any compiler
// makes sure that what was mended stays mended.
//   fuzz_replay CORPUS [TARGET...]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "target.h"
#include "winnow/base/files.h"
#include "winnow/engine/threads.h"

// CMake gives the entry point of each target a name of its own and lists them here.
#define WINNOW_TARGET(name) extern "C" int name##_input(const std::uint8_t*, std::size_t);
WINNOW_TARGETS
#undef WINNOW_TARGET

// Nothing is changed in a replay.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* /*data*/, std::size_t size,
                                        std::size_t /*max_size*/) {
  return size;
}

namespace winnow {
namespace {

namespace fs = std::filesystem;

constexpr double kLongestSeconds = 5.0;

struct Target {
  const char* name;
  int (*run)(const std::uint8_t*, std::size_t);
};

#define WINNOW_TARGET(name) Target{#name, name##_input},
constexpr std::array kTargets{WINNOW_TARGETS};
#undef WINNOW_TARGET

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// What is wrong with the target's behaviour; empty when nothing is.
std::string fault_of(const Target& target, const fs::path& file) {
  const std::string bytes = read_file(file);
  const auto begun = std::chrono::steady_clock::now();
  try {
    target.run(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  } catch (const std::exception& error) {
    return error.what();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  return took.count() > kLongestSeconds ? fmt::format("took {:.1f} s", took.count()) : "";
}

int replay(std::span<const char* const> arguments) {
  use_one_thread_per_operation();
  const fs::path corpus = arguments[0];
  const auto wanted = arguments.subspan(1);
  int faults = 0;
  for (const Target& target : kTargets) {
    if (!wanted.empty() && std::ranges::count(wanted, std::string_view(target.name)) == 0) {
      continue;
    }
    const std::vector<fs::path> files = files_of(corpus / target.name);
    if (files.empty()) {
      fmt::print("{}: its corpus is empty\n", target.name);
      ++faults;
    }
    for (const fs::path& file : files) {
      if (const std::string fault = fault_of(target, file); !fault.empty()) {
        fmt::print("{}: {}\n", file.string(), fault);
        ++faults;
      }
    }
    fmt::print("{:14} {:4} files\n", target.name, files.size());
    std::fflush(stdout);
  }
  return faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace winnow

int main(int count, char** arguments) {
  if (count < 2) {
    fmt::print(stderr, "usage: fuzz_replay CORPUS [TARGET...]\n");
    return 2;
  }
  try {
    return winnow::replay(std::span(arguments, static_cast<std::size_t>(count)).subspan(1));
  } catch (const std::exception& error) {
    fmt::print(stderr, "fuzz_replay: {}\n", error.what());
    return 1;
  }
}

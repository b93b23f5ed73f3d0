// Re-executes a run in memory and compares the model hash of every round with what was logged.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>

#include "winnow/run/session.h"

namespace winnow {

struct Verification {
  std::int64_t compared = 0;       // rounds that agree
  std::int64_t differs_at = 0;     // first round that does not; 0: none
  std::string logged, recomputed;  // hashes of that round
};

// Compares the first `rounds` logged rounds (0: all of them); stops at the first difference. Calls
// `progress(round, total)` after each round. Throws as check_arithmetic() does.
Verification verify_run(const std::filesystem::path& directory, const Registry& registry,
                        const Runtime& runtime, std::int64_t rounds, const std::atomic<bool>* stop,
                        const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace winnow

// The models that a process has fetched lately, so that none travels twice in a round however many
// orders and members refer to it.
#pragma once

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "winnow/model/state.h"

namespace winnow::member {

// May be used by several threads at once.
class Shelf {
 public:
  explicit Shelf(std::size_t most = 8) : most_(most) {}

  // By the digest of its values; nothing where it is not there, or only with another layout.
  std::optional<State> find(const std::string& digest, const Layout& layout) const {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(models_, [&](const auto& held) {
      return held.first == digest && *held.second.layout == layout;
    });
    return found == models_.end() ? std::nullopt : std::optional(found->second);
  }

  void put(const std::string& digest, const State& model) {
    const std::lock_guard lock(mutex_);
    models_.emplace_back(digest, model);
    if (models_.size() > most_) {
      models_.pop_front();
    }
  }

 private:
  std::size_t most_;
  mutable std::mutex mutex_;
  std::deque<std::pair<std::string, State>> models_;  // the newest last
};

}  // namespace winnow::member

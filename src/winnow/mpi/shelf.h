// The models that a rank holds, by digest. Rank 0 keeps the same list for every rank, so that it
// knows what need not be sent again: both must do the same in the same order.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include "winnow/model/state.h"

namespace winnow {

class Shelf {
 public:
  // Models of more bytes in all than that are not kept, the one used longest ago goes first.
  static constexpr std::int64_t kLimit = std::int64_t{256} << 20;

  // The model with that digest, which counts as used; nothing where it is not held.
  std::optional<State> use(const std::string& digest) {
    for (auto place = models_.begin(); place != models_.end(); ++place) {
      if (place->digest == digest) {
        models_.splice(models_.begin(), models_, place);
        return models_.front().state;
      }
    }
    return std::nullopt;
  }
  // `state` may be empty where only the list matters.
  void put(const std::string& digest, std::int64_t bytes, State state) {
    models_.push_front({digest, bytes, std::move(state)});
    held_ += bytes;
    while (held_ > kLimit && models_.size() > 1) {
      held_ -= models_.back().bytes;
      models_.pop_back();
    }
  }
  void clear() {
    models_.clear();
    held_ = 0;
  }

 private:
  struct Held {
    std::string digest;
    std::int64_t bytes;
    State state;
  };
  std::list<Held> models_;
  std::int64_t held_ = 0;
};

}  // namespace winnow

// Rounds of a base method by hand: its parts are called as play() and wrappers call them, with no
// client that works.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "testing/support.h"
#include "winnow/method/base_method.h"

namespace winnow {

// A round that sends out `start`, in a federation of clients with so many samples.
struct HandRound {
  explicit HandRound(State start, std::vector<std::int64_t> sizes = {1, 1}, std::int64_t number = 0)
      : fleet(std::move(sizes), nullptr),
        setting{.seed = 4, .clients = fleet.size()},
        global(std::move(start)),
        server{setting, fleet, global, notes},
        round(number, server) {}

  FakeFleet fleet;
  Setting setting;
  State global;
  Json notes = Json::object();
  Server server;
  Round round;
};

// What a round makes of these uploads.
inline State fuse(BaseMethod& method, const State& global, const std::vector<Upload>& uploads,
                  std::vector<std::int64_t> sizes = {1, 1}) {
  HandRound hand(global, std::move(sizes));
  method.begin(hand.round);
  for (const Upload& each : uploads) {
    method.add(hand.round, each);
  }
  return method.finish(hand.round);
}

// The task of a client in that round.
inline Message task_of(const BaseMethod& method, std::int64_t number, std::int64_t client,
                       const State& global) {
  return method.task(HandRound(global, {1, 1}, number).round, client);
}

}  // namespace winnow

// One ask of rank 0: hands out the orders, then has the replies in their order, whoever answers
// them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "winnow/federation/fleet.h"
#include "winnow/mpi/desk.h"
#include "winnow/mpi/leader.h"
#include "winnow/run/workplace.h"

namespace winnow {

// An ask as it is dealt: `places` of the orders in the order of folding, and the rank of each.
struct Dealt {
  const std::vector<Order>& orders;
  std::vector<std::size_t> places;
  std::vector<int> owners;
  std::uint64_t number = 0;          // no two asks of a job have the same
  std::optional<SumForm> form = {};  // ranks keep the models for such a sum
};

class Asking {
 public:
  // Sends the orders and begins with its own. `stop`, when set, ends next() with Interrupted. What
  // is referred to must outlive it.
  Asking(Leader& leader, Workplace& place, const std::atomic<bool>* stop, const Dealt& dealt);

  // The reply to the order whose turn it is.
  DeskReply next(std::size_t item);
  // Everybody is done.
  void finish();
  // Has everybody stop, and hears out who owes something.
  void cancel();

 private:
  std::optional<Ranks::Arrival> hear(std::optional<int> from);
  void hold(std::size_t rank, DeskReply reply);
  void take(const Ranks::Arrival& arrival);

  Leader& leader_;
  Workplace& place_;
  const std::atomic<bool>* stop_;
  Ranks& ranks_;
  std::uint64_t number_;
  std::vector<int> owners_;
  std::vector<std::deque<std::int64_t>> queues_;  // by rank the clients whose replies it owes
  std::vector<std::deque<DeskReply>> arrived_;
  std::int64_t held_ = 0;
  std::optional<Desk> desk_;
};

}  // namespace winnow

// A fleet some of whose clients send manipulated models, so that robust rules can be seen at work.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "winnow/federation/fleet.h"
#include "winnow/noise/attack/attack.h"

namespace winnow {

// One block of the experiment with its attackers.
struct Attackers {
  AttackOptions options;
  std::set<std::int64_t> clients;
};

// What an attacker sends in place of `own`, its honestly trained model, when it was sent `base` and
// sees the honest models `seen` (not empty where the attack colludes). Running statistics and
// counters stay those of `own`, but a free rider sends all of `base`. `stream` keys the draws of
// "random". spec: rivals 7
State attacked(const AttackOptions& options, const State& base, const State& own,
               const std::vector<State>& seen, std::uint64_t stream);

// Passes orders on to `fleet`. In the reply of an attacker the field "model" is replaced; the rest
// of it is honest, and so are replies without a model, or to whom no model was sent in the round. A
// model that is not finite passes as it is. Later blocks work on what earlier ones have made. Where
// attackers collude all replies of an ask are held until the last has come; the order of folding
// stays.
class HostileFleet final : public Fleet {
 public:
  HostileFleet(Fleet& fleet, std::vector<Attackers> blocks, std::uint64_t seed);

  // The asks that follow belong to this round.
  void begin(std::int64_t round);

  std::int64_t size() const override { return fleet_.size(); }
  std::int64_t samples(std::int64_t client) const override { return fleet_.samples(client); }
  ClientList with_samples() const override { return fleet_.with_samples(); }
  [[nodiscard]] std::vector<Absence> ask(const std::vector<Order>& orders,
                                         const Fold& fold) override;
  const Traffic& traffic() const override { return fleet_.traffic(); }

 private:
  struct Reply {
    std::int64_t client = 0;
    Message message;
  };
  void manipulate(const Attackers& block, std::size_t number, std::vector<Reply>& replies) const;

  Fleet& fleet_;
  std::vector<Attackers> blocks_;
  std::uint64_t seed_;
  std::int64_t round_ = 0;
  std::int64_t ask_ = 0;
  std::map<std::int64_t, State> sent_;  // the last model sent to each client in the round
};

}  // namespace winnow

// A fleet whose clients fail to answer now and then, so that drop-outs can be part of a simulation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "winnow/base/json.h"
#include "winnow/federation/fleet.h"

namespace winnow {

// Which order of a run a client did not answer: the asks of a round are counted from 0.
struct OrderPlace {
  std::int64_t round = 0;  // from 0
  std::int64_t ask = 0;
  std::int64_t client = 0;

  bool operator==(const OrderPlace&) const = default;
  bool operator<(const OrderPlace& other) const {
    return std::tie(round, ask, client) < std::tie(other.round, other.ask, other.client);
  }
};

using Absences = std::map<OrderPlace, AbsenceReason>;

// What `absent` says in the event of a round (counted from 0), and back. Throws Error(kind run)
// that names what does not fit; `clients` is how many there are.
Json absences_to_json(const Absences& absences);
Absences absences_of_round(const Json& list, std::int64_t round, std::int64_t clients);

// Passes orders on to `fleet` but for those that are lost: an order is lost with probability
// `dropout`, by a draw keyed by seed, round, ask and client, or because `given` says so. A client
// whose order is lost never learns of it: its memory stays as it was and no traffic is counted.
class AbsentFleet final : public Fleet {
 public:
  AbsentFleet(Fleet& fleet, double dropout, std::uint64_t seed, Absences given = {});

  // The asks that follow belong to this round.
  void begin(std::int64_t round);
  // Of the round so far.
  const Absences& absences() const { return absences_; }

  std::int64_t size() const override { return fleet_.size(); }
  std::int64_t samples(std::int64_t client) const override { return fleet_.samples(client); }
  ClientList with_samples() const override { return fleet_.with_samples(); }
  [[nodiscard]] std::vector<Absence> ask(const std::vector<Order>& orders,
                                         const Fold& fold) override;
  [[nodiscard]] Sums ask_for_sums(const std::vector<Order>& orders,
                                  const std::vector<FieldRule>& rules, SumForm form,
                                  const Hear& hear) override;
  bool forms_sums() const override { return fleet_.forms_sums(); }
  const Traffic& traffic() const override { return fleet_.traffic(); }

 private:
  // Takes the lost ones out of the orders of the next ask; who they were for.
  std::vector<Absence> lose(std::vector<Order>& orders);
  // All who did not answer it, the lost ones and those of whom the fleet says so.
  std::vector<Absence> note(std::vector<Absence> lost, const std::vector<Absence>& further);

  Fleet& fleet_;
  double dropout_;
  std::uint64_t seed_;
  Absences given_;
  std::int64_t round_ = 0;
  std::int64_t ask_ = 0;
  Absences absences_;
};

}  // namespace winnow

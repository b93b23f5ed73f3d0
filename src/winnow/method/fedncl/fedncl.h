// Fed-NCL, federated noisy client learning (spec: input-noise 2): clients whose divergence
// times loss is unusual in a round are flagged, weigh little in a layer-wise average, and if
// flagged often enough train on labels corrected by the global model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "winnow/method/fedncl/arithmetic.h"
#include "winnow/method/method.h"

namespace winnow {

// Holds all uploads of a round: weights need the flags, flags need every score.
class FedNCL final : public Method {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Schema> schemas() const override;
  void play(std::int64_t round, Server& server) override;
  // Flagged: the candidates, once the penalty rounds are over; before, and where there are none,
  // who was flagged in more than a share `candidate_share` of the rounds so far. Scores of every
  // client that took part: the last "reliability" Q, the "flag_share" of all its rounds and the
  // "flag_share_early" of those before penalty_rounds.
  Findings findings() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

  // The clients that correct their labels after the penalty rounds.
  const std::set<std::int64_t>& correcting() const { return correcting_; }

 private:
  // The usable replies of a round, ascending by client.
  struct Round {
    std::vector<std::int64_t> clients;
    std::vector<State> models;
    fedncl::Participants participants;
  };
  struct Tally {
    std::int64_t flags = 0;
    std::int64_t rounds = 0;  // that the client took part in

    double share() const { return static_cast<double>(flags) / static_cast<double>(rounds); }
  };
  struct History {
    Tally all;
    Tally early;  // in rounds before penalty_rounds
    double reliability = 0.0;
  };

  bool corrects(std::int64_t round, std::int64_t client) const;
  Round ask(std::int64_t round, const std::vector<std::int64_t>& chosen, Server& server) const;
  void remember(std::int64_t round, const Round& played);
  void choose_candidates(std::int64_t round);
  bool suspects(std::int64_t client, const History& history) const;

  std::int64_t penalty_rounds_ = 60;
  double beta_ = 1.0;
  std::string detection_ = "two_sided";
  std::string score_ = "product_mean";
  std::string loss_ = "train_running";
  bool literal_counter_ = false;
  std::string aggregation_ = "layerwise";
  bool penalty_ = true;
  double penalty_early_ = 10.0;
  double penalty_late_ = 50.0;
  bool correction_ = true;
  double candidate_share_ = 0.5;
  std::string candidates_ = "absolute";
  std::int64_t min_participations_ = 3;
  double confidence_ = 0.9;
  double mu_ = 0.0;

  std::map<std::int64_t, History> history_;
  std::set<std::int64_t> correcting_;
  std::int64_t rounds_ = 0;  // played so far
};

MethodInfo fedncl_info();

}  // namespace winnow

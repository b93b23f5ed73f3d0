// Fed-NCL, federated noisy client learning (spec: input-noise 2): clients whose divergence
// times loss is unusual in a round are flagged, weigh little in a layer-wise average, and if
// flagged often enough train on labels corrected by the global model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "winnow/method/round.h"
#include "winnow/method/system/fedncl/arithmetic.h"
#include "winnow/method/system/fedncl/client.h"

namespace winnow {
namespace fedncl {

// Flag clients with unusual scores on both sides of the mean, or only with large ones.
enum class Detection { two_sided, one_sided };
// The rounds that candidate_share refers to: penalty_rounds, or those in which a client took part.
enum class CandidateShare { absolute, relative };

// The names are those of the method's parameters.
struct Options {
  std::int64_t penalty_rounds = 60;
  double beta = 1.0;
  Detection detection = Detection::two_sided;
  ReliabilityRule score = ReliabilityRule::product_mean;
  LossRule loss = LossRule::train_running;
  bool literal_counter = false;
  WeightRule aggregation = WeightRule::layerwise;
  bool penalty = true;
  double penalty_early = 10.0;
  double penalty_late = 50.0;
  bool correction = true;
  double candidate_share = 0.5;
  CandidateShare candidates = CandidateShare::absolute;
  std::int64_t min_participations = 3;
  double confidence = 0.9;
  double mu = 0.0;
  double dyn_alpha = 0.0;
};

}  // namespace fedncl

// Holds all uploads of a round: weights need the flags, flags need every score.
class FedNCL final : public Method {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  std::string needs_sgd() const override;
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("it measures how far every model is from the global one");
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  void play(std::int64_t number, Server& server) override;
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
  struct Played {
    std::vector<std::int64_t> clients;
    std::vector<State> models;
    fedncl::Participants participants;
  };
  struct Tally {
    std::int64_t flags = 0;
    std::int64_t rounds = 0;  // that the client took part in

    double share() const { return static_cast<double>(flags) / static_cast<double>(rounds); }
    bool operator==(const Tally&) const = default;
  };
  struct History {
    Tally all;
    Tally early;  // in rounds before penalty_rounds
    double reliability = 0.0;

    bool operator==(const History&) const = default;
  };

  bool corrects(std::int64_t round, std::int64_t client) const;
  Played ask(Round& round) const;
  void remember(std::int64_t round, const Played& played);
  void choose_candidates(std::int64_t round);
  bool suspects(std::int64_t client, const History& history) const;

  fedncl::Options options_;

  ByClient<History> history_;
  std::set<std::int64_t> correcting_;
  std::int64_t rounds_ = 0;  // played so far
};

MethodInfo fedncl_info();

}  // namespace winnow

// FedNS, federated noise sifting (spec: input-noise 1): clients score their own data once by a
// gradient norm, the server splits them into clean and noisy, and a base method aggregates them
// with different factors from then on.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "winnow/federation/aggregation.h"
#include "winnow/method/base_choice.h"
#include "winnow/method/system/fedns/arithmetic.h"
#include "winnow/method/system/fedns/sifting.h"

namespace winnow {

namespace fedns {

// The names are those of the method's parameters; those of `score` begin with "score_" there.
struct Options {
  double alpha = 2.0;
  double beta = 0.3;
  bool use_counts = true;
  bool renormalise = true;
  bool trim_literal = false;
  double first_round_fraction = 1.0;
  ScoreRule score = {};
  bool refresh = true;
  bool debug_density = false;
  std::int64_t norms_every = 0;
};

// Who says which clients are noisy.
enum class Flags {
  scores,  // the method itself
  truth,   // ground truth: the bound `fedns_oracle_flags`, which never scores
};

}  // namespace fedns

// Scoring is open until every client that holds samples has a score; then the flags are frozen. In
// a scoring round the server holds the round's models, for their factors depend on all scores;
// afterwards it holds what the base method does.
class FedNS final : public Method {
 public:
  explicit FedNS(fedns::Flags flags = fedns::Flags::scores) : flags_(flags) {}

  void know(const Offered& offered) override { base_.know(offered); }
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  bool needs_features() const override {
    return options_.score.layer.empty() || base_->needs_features();
  }
  std::string needs_sgd() const override { return base_.needs_sgd(); }
  std::int64_t projection() const override { return base_->projection(); }
  ServerNeeds server_needs() const override {
    return ServerNeeds::two_phases("it weights every model by a score that is sent with it", false);
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  void play(std::int64_t number, Server& server) override;
  Findings findings() const override;
  Findings claims() const override;
  // With norms_every the scores of every time that they were taken, those of scoring rounds too.
  Details details() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  void declare_score(Params& params);
  void check_base(const Setting& setting) const;
  // Who of the chosen is to score in this round.
  std::set<std::int64_t> scorers(const std::vector<std::int64_t>& chosen) const;
  // What only pictures need of a reply with norms.
  void note_norms(const Upload& upload, bool measuring, Json& notes);
  void note_score(const Upload& upload, Json& notes);
  // Sets the flags from the table, and closes it when it is complete.
  void update_flags(const Round& round);
  void begin(Round& round);
  void add(Round& round, Upload upload);
  // Whether what was added is enough for a next model.
  bool can_finish() const;
  State finish(Round& round);

  fedns::Flags flags_;
  BaseChoice base_;
  fedns::Options options_;

  // Between rounds.
  fedns::ScoreTable scores_;
  std::set<std::int64_t> too_small_;  // clients with one batch, where a variance is asked for
  // Clients that were absent when they should have scored; they do when they next take part.
  std::set<std::int64_t> missed_;
  std::set<std::int64_t> noisy_;
  bool open_ = true;
  bool sifted_ = false;                   // the flags are a finding
  std::vector<ByClient<double>> series_;  // scores of the rounds of norms_every

  // Inside a round.
  WeightedMean literal_mean_;
  double samples_ = 0.0;
  double weight_ = 0.0;
};

MethodInfo fedns_info();
MethodInfo fedns_oracle_flags_info();

}  // namespace winnow

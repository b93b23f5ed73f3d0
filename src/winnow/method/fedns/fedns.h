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
#include "winnow/method/fedns/score.h"
#include "winnow/method/fedns/sifting.h"

namespace winnow {

// Who says which clients are noisy.
enum class Flags {
  scores,  // the method itself
  truth,   // ground truth: the bound `fedns_oracle_flags`, which never scores
};

// Scoring is open until every client that holds samples has a score; then the flags are frozen. In
// a scoring round the server holds the round's models, for their factors depend on all scores;
// afterwards it holds what the base method does.
class FedNS final : public Method {
 public:
  explicit FedNS(Flags flags = Flags::scores) : flags_(flags) {}

  void know(const Registry& methods) override { base_.know(methods); }
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  bool needs_features() const override { return rule_.layer.empty() || base_->needs_features(); }
  std::int64_t projection() const override { return base_->projection(); }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Schema> schemas() const override;
  void play(std::int64_t round, Server& server) override;
  Findings findings() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  void declare_score(Params& params);
  void check_base(const Setting& setting) const;
  // Who of the chosen is to score in this round.
  std::set<std::int64_t> scorers(const std::vector<std::int64_t>& chosen) const;
  void note_score(const Upload& upload, Json& notes);
  // Sets the flags from the table, and closes it when it is complete.
  void update_flags(const std::vector<std::int64_t>& pool, Json& notes);
  void begin(const State& global);
  void add(Upload upload);
  State finish(const State& global, Json& notes);

  Flags flags_;
  BaseChoice base_;
  double alpha_ = 2.0;
  double beta_ = 0.3;
  bool use_counts_ = true;
  bool renormalise_ = true;
  bool trim_literal_ = false;
  ScoreRule rule_;
  double first_round_fraction_ = 1.0;
  bool refresh_ = true;
  bool debug_density_ = false;

  // Between rounds.
  ScoreTable scores_;
  std::set<std::int64_t> too_small_;  // clients with one batch, where a variance is asked for
  std::set<std::int64_t> noisy_;
  bool open_ = true;
  bool sifted_ = false;  // the flags are a finding

  // Inside a round.
  WeightedMean literal_mean_;
  double samples_ = 0.0;
  double weight_ = 0.0;
};

MethodInfo fedns_info();
MethodInfo fedns_oracle_flags_info();

}  // namespace winnow

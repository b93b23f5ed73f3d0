// ClipFL (spec: label-noise C): the server tries every uploaded model on a validation set of its
// own, counts how often each client falls below the best, and after some rounds dismisses the worst
// for good. It wraps any base method and asks nothing new of the clients.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "winnow/method/base_choice.h"
#include "winnow/method/method.h"
#include "winnow/method/system/clipfl/ncs_ledger.h"

namespace winnow {

namespace clipfl {

// Which models are averaged in the rounds before pruning.
enum class Fuse { kept, all };

// The names are those of the method's parameters.
struct Options {
  std::int64_t pre_rounds = 80;
  std::int64_t keep = 5;
  double prune = 0.5;
  Fuse fuse = Fuse::kept;
  Tie tie = Tie::ratio;
};

}  // namespace clipfl

// Phase I (screening) lasts `pre_rounds` rounds; phase II (pruning) is the start of the round after
// them; phase III is the base method over the clients that remain. Holds the uploads of one round
// in phase I.
class ClipFL : public Method {
 public:
  void know(const Offered& offered) override { base_.know(offered); }
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  bool needs_features() const override { return base_->needs_features(); }
  std::string needs_sgd() const override { return base_.needs_sgd(); }
  std::int64_t projection() const override { return base_->projection(); }
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("it measures every model on its own validation samples");
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  void play(std::int64_t number, Server& server) override;
  // Flagged are the pruned clients, once there was a phase II.
  Findings findings() const override;
  Findings claims() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  std::int64_t prune_count(std::int64_t clients) const;
  // Asks the base whether it can fuse what a round of phase I and one of phase III leave it.
  void check_fusions(const Setting& setting) const;
  void prune(Server& server);
  // The clients a round may choose from, ascending.
  ClientList remaining(const Fleet& fleet) const;
  void play_screening(Round& round);
  // Measures the uploads, brings the ledger up to date and returns who fell below the best.
  std::set<std::int64_t> judge(const Round& round, const std::vector<Upload>& uploads);

  BaseChoice base_;
  clipfl::Options options_;

  // Lasts between rounds.
  clipfl::NcsLedger ledger_;
  std::optional<std::set<std::int64_t>> pruned_;  // nothing before phase II
};

MethodInfo clipfl_info();

}  // namespace winnow

// FedCorr (spec: label-noise A): find noisy clients by the dimensionality of their predictions, let
// them correct their labels, finetune on the clean ones, then train as usual.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/method/base_choice.h"
#include "winnow/method/method.h"
#include "winnow/method/system/fedcorr/arithmetic.h"

namespace winnow {

// Three stages on a schedule of its own. Stage 1 hands the model from client to client, a turn a
// round; in the last turn of an iteration flagged clients estimate their noise and relabel. Stage 2
// is FedAvg on the clients with little noise; after its last round flagged clients relabel once
// more. Stage 3 is the base method on everybody. The server learns of a client its models, its LID
// and, once flagged, its estimated share of wrong labels.
class FedCorr final : public Method {
 public:
  void know(const Offered& offered) override { base_.know(offered); }
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  bool needs_features() const override { return base_->needs_features(); }
  std::string needs_sgd() const override { return base_.needs_sgd(); }
  // Its own number, whatever the experiment says.
  std::int64_t rounds(const Setting& setting) const override;
  std::string schedule(const Setting& setting) const override;
  std::int64_t projection() const override { return base_->projection(); }
  ServerNeeds server_needs() const override {
    return ServerNeeds::models(
        "in its first stage clients train one after the other, each from the model of the one "
        "before");
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  void play(std::int64_t number, Server& server) override;
  Findings findings() const override;
  Findings claims() const override;
  Details details() const override;
  std::string keeps_labels_as(std::int64_t round, const Setting& setting) const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  // `drawn` may name a client more than once.
  void play_turn(Round& round, const std::vector<std::int64_t>& drawn);
  void finish_iteration(const Round& round, const fedcorr::Step& step);
  // Asks flagged clients to correct themselves, tells the others that they are clean.
  void correct(const Round& round);
  void correct_all(const Round& round) const;
  // Out of a file.
  void load_trails(const Archive& archive);

  fedcorr::Options options_;
  BaseChoice base_;
  FedAvg finetune_;
  ByClient<double> turn_lids_;          // of the iteration in progress
  std::set<std::int64_t> turn_absent_;  // who had a turn in it and did not answer
  ByClient<fedcorr::Trail> trails_;     // over finished iterations
  // LID by client of every finished iteration.
  std::vector<ByClient<double>> lids_;
  // Of all clients with samples but those that were flagged and then absent; empty before the first
  // iteration is finished.
  ByClient<double> estimates_;
  std::vector<std::int64_t> noisy_;  // of the last finished iteration
};

MethodInfo fedcorr_info();

}  // namespace winnow

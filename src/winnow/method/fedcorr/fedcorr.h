// FedCorr (spec: label-noise A): find noisy clients by the dimensionality of their predictions, let
// them correct their labels, finetune on the clean ones, then train as usual.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "winnow/method/base_choice.h"
#include "winnow/method/fedavg/fedavg.h"
#include "winnow/method/fedcorr/rules.h"
#include "winnow/method/method.h"

namespace winnow {

// Three stages on a schedule of its own. Stage 1 hands the model from client to client, a turn a
// round; in the last turn of an iteration flagged clients estimate their noise and relabel. Stage 2
// is FedAvg on the clients with little noise; after its last round flagged clients relabel once
// more. Stage 3 is the base method on everybody. The server learns of a client its models, its LID
// and, once flagged, its estimated share of wrong labels.
class FedCorr final : public Method {
 public:
  void know(const Registry& methods) override { base_.know(methods); }
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  bool needs_features() const override { return base_->needs_features(); }
  // Its own number, whatever the experiment says.
  std::int64_t rounds(const Setting& setting) const override;
  std::string schedule(const Setting& setting) const override;
  std::int64_t projection() const override { return base_->projection(); }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Schema> schemas() const override;
  void play(std::int64_t round, Server& server) override;
  Findings findings() const override;
  Details details() const override;
  std::string keeps_labels_as(std::int64_t round, const Setting& setting) const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  // `drawn` may name a client more than once.
  void play_turn(const std::vector<std::int64_t>& drawn, std::int64_t round, Server& server);
  void finish_iteration(const fedcorr::Step& step, std::int64_t round, Server& server);
  // Asks flagged clients to correct themselves, tells the others that they are clean.
  void correct(const std::vector<std::int64_t>& pool, std::int64_t round, Server& server);
  void correct_all(Server& server) const;

  fedcorr::Options options_;
  BaseChoice base_;
  FedAvg finetune_;
  std::map<std::int64_t, double> turn_lids_;       // of the iteration in progress
  std::map<std::int64_t, fedcorr::Trail> trails_;  // over finished iterations
  // LID by client of every finished iteration.
  std::vector<std::map<std::int64_t, double>> lids_;
  std::map<std::int64_t, double> estimates_;  // of all clients with samples; empty before the
                                              // first iteration is finished
  std::vector<std::int64_t> noisy_;           // of the last finished iteration
};

MethodInfo fedcorr_info();

}  // namespace winnow

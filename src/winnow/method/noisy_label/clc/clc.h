// CLC (spec: baselines 20): clients agree on how confident the global model should be of each
// class, leave out the samples that contradict it, and at the end relabel them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/method/method.h"
#include "winnow/method/noisy_label/clc/arithmetic.h"

namespace winnow {

// Three stages on a schedule of its own: FedAvg to start with; rounds in which every selected
// client tells its class confidences, hears the consensus and trains on what it keeps; and, after
// all clients have corrected their labels once, FedAvg again. The server learns of a client its
// models, its confidences, its number of samples of each label and how many it kept.
class Clc final : public Method {
 public:
  void declare(Params& params) override { clc::declare(options_, params); }
  // Refuses a schedule without rounds.
  void check(const Setting& setting) const override;
  // Its own number, whatever the experiment says.
  std::int64_t rounds(const Setting& /*setting*/) const override { return options_.rounds(); }
  std::string schedule(const Setting& setting) const override;
  ServerNeeds server_needs() const override {
    return ServerNeeds::two_phases(
        "clients send their confidences first, then the models trained on the kept samples are "
        "averaged",
        true);
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  // Notes `stage`, then `held_out`, the share of the round's samples, or `relabelled`, and
  // `uncorrected`, the clients whose confidences could not be used, where there are any.
  void play(std::int64_t number, Server& server) override;
  // Score `held_out`: the share of a client's samples in the last round it took part in.
  Findings findings() const override;
  Findings claims() const override { return {}; }
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  // What came of asking some clients for their confidences.
  struct Agreement {
    std::vector<double> confidence;
    std::vector<std::int64_t> clients;  // who answered
  };
  // Asks them in the round, which knows who was rejected or absent.
  Agreement agree(Round& round, const std::vector<std::int64_t>& asked) const;
  void hold_out(Round& round);
  void correct(const Round& round) const;

  clc::Options options_;
  FedAvg fedavg_;
  ByClient<double> held_out_;  // share by client; lasts between rounds
};

MethodInfo clc_info();

}  // namespace winnow

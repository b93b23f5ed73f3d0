// FOCUS (spec: baselines 19): FedAvg whose server believes a client the less, the worse its model
// does on the server's own samples and the worse the global model does on the client's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/method/method.h"

namespace winnow {

// Clients report `local_loss`, the mean cross-entropy of the model they received on their own
// labels. Holds the models of one round. Not a base method: its weights need the server's
// validation set, which a wrapper has no way to hand over.
class Focus final : public Method {
 public:
  void declare(Params& params) override;
  // Refuses a run without a validation set.
  void check(const Setting& setting) const override;
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("it measures every model on its own validation samples");
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  // Notes `weighed`, ascending, and `weights`, what the model of each counted.
  void play(std::int64_t number, Server& server) override;
  // Scores `credibility` and `mutual_loss`, by client, of the last round it took part in.
  Findings findings() const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  // A client's upload with E_k, as far as it is summed up.
  struct Candidate {
    std::int64_t client = 0;
    State model;
    double samples = 0.0;
    double mutual = 0.0;
  };
  // Asks the chosen clients to train.
  std::vector<Candidate> collect(Round& round) const;
  // Adds the losses on the validation set, and rejects the candidates that have none.
  static void measure(Round& round, std::vector<Candidate>& candidates);
  // How far each candidate is believed in this round; remembers their losses and credibility.
  std::vector<double> believe(const std::vector<Candidate>& candidates);

  double alpha_ = 1.0;
  bool lagged_ = false;
  FedAvg fedavg_;

  // Last between rounds, by client.
  std::map<std::int64_t, double> mutual_;
  std::map<std::int64_t, double> credibility_;
};

MethodInfo focus_info();

}  // namespace winnow

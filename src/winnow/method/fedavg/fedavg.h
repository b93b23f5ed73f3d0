// FedAvg (spec: baselines 1): uniform selection, plain local training, average weighted by samples.
// The base that other methods vary: they override the local rule.
#pragma once

#include "winnow/method/method.h"

namespace winnow {

class FedAvg : public Method {
 public:
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Schema> schemas() const override;
  void play(std::int64_t round, Server& server) override;

 protected:
  // What local training adds to plain SGD.
  virtual LocalRule local_rule() const { return {}; }
};

MethodInfo fedavg_info();

}  // namespace winnow

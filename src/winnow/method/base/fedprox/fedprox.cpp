#include "winnow/method/base/fedprox/fedprox.h"

namespace winnow {

void FedProx::declare(Params& params) {
  params
      .add("mu", mu_,
           "weight of the proximal term, which keeps clients near the received model; 0: FedAvg")
      .at_least(0)
      .source("0.01 of Fed-NCL's code; FedCorr uses 1, FedNS 0.1, ClipFL 0.001");
  FedAvg::declare(params);
}

MethodInfo fedprox_info() {
  return {"fedprox", "base", "FedAvg that keeps clients near the global model",
          [] { return std::make_unique<FedProx>(); }};
}

}  // namespace winnow

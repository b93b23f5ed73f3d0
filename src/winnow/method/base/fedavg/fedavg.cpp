#include "winnow/method/base/fedavg/fedavg.h"

namespace winnow {

void FedAvg::declare(Params& params) {
  params
      .add("weighting", weighting_, {{"samples", Weighting::samples}, {"equal", Weighting::equal}},
           "weight of a client's model: its number of samples, or equal for all")
      .source("FedAvg's paper; the codes of Fed-NCL and FedNS average equally");
}

std::vector<Exchange> FedAvg::exchanges(const Setting& /*setting*/) const {
  return exchanges_of(weighting_, weighting_);
}

void FedAvg::add(Round& round, const Upload& upload) {
  if (weighting_ == Weighting::samples) {
    BaseMethod::add(round, upload);
    return;
  }
  Upload alike = upload;
  alike.samples = 1.0;  // a wrapper's factor still counts
  BaseMethod::add(round, alike);
}

MethodInfo fedavg_info() {
  return {"fedavg", "base", "average of the clients' models, weighted by samples",
          [] { return std::make_unique<FedAvg>(); }};
}

}  // namespace winnow

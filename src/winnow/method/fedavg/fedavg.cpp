#include "winnow/method/fedavg/fedavg.h"

namespace winnow {

void FedAvg::declare(Params& params) {
  params.add("weighting", weighting_, "what a model weighs: its client's samples, or all the same")
      .choices({"samples", "equal"})
      .source("FedAvg's paper; the codes of Fed-NCL and FedNS average equally");
}

void FedAvg::add(const Upload& upload) {
  if (weighting_ == "samples") {
    BaseMethod::add(upload);
    return;
  }
  Upload alike = upload;
  alike.samples = 1.0;  // a wrapper's factor still counts
  BaseMethod::add(alike);
}

MethodInfo fedavg_info() {
  return {"fedavg", "base", "average of the clients' models, weighted by their samples",
          [] { return std::make_unique<FedAvg>(); }};
}

}  // namespace winnow

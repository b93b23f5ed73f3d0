#include "winnow/method/noisy_label/fedelc/fedelc.h"

#include <utility>

namespace winnow {

void FedElc::declare(Params& params) {
  params
      .add("warmup", options_.warmup,
           "rounds of the first stage, in which all clients train with adjusted logits")
      .at_least(1)
      .source("released code; MaskedOptim: 30");
  params
      .add("alpha", options_.alpha,
           "weight of the term that keeps learnt labels near the given ones")
      .at_least(0)
      .source("released code; its comment says 1");
  params.add("beta", options_.beta, "weight of the entropy of the predictions")
      .at_least(0)
      .source("released code; its comment says 0.5; MaskedOptim: 0.1");
  params.add("lambda", options_.lambda, "step size with which learnt labels follow their gradient")
      .at_least(0)
      .source("released code");
  params
      .add("k", options_.k,
           "logit of the given label at the start, and scale of the learnt ones between "
           "participations")
      .above(0)
      .source("released code");
  params
      .add("masked", options_.masked,
           "MaskedOptim: only samples with a small loss are kept near their given labels, and the "
           "server takes the geometric median")
      .source("here; MaskedOptim's paper: true");
  params
      .add("keep", options_.keep,
           "masked: share of a batch, smallest losses first, that is kept near its given labels")
      .range(0, 1)
      .source("MaskedOptim");
}

std::unique_ptr<ClientSide> FedElc::client_side() const {
  return std::make_unique<fedelc::Client>(options_);
}

State FedElc::fuse(HeldModels held, const std::set<std::int64_t>& noisy) const {
  if (!options_.masked) {
    return fednoro::by_distance(held, noisy);
  }
  GeometricMedian median = geometric_median(held.models(), held.weights());
  return std::move(median.model).to(held.device());
}

MethodInfo fedelc_info() {
  return {.name = "fedelc",
          .group = "noisy-label",
          .summary = "noisy clients learn their labels along with the model",
          .make = [] { return std::make_unique<FedElc>(); },
          .smoke = Json::object({{"rounds", 5}, {"method.warmup", 2}})};
}

}  // namespace winnow

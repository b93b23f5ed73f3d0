#include "winnow/method/base/fedavgm/fedavgm.h"

#include <ATen/ATen.h>

namespace winnow {
namespace {

constexpr const char* kVelocity = "fedavgm.velocity";

}  // namespace

void FedAvgM::declare(Params& params) {
  params.add("lr", lr_, "learning rate of the server").at_least(0).source("spec: baselines 5");
  params.add("momentum", momentum_, "momentum of the server; 0 with lr = 1: FedAvg")
      .range(0, 0.9999)
      .source("spec: baselines 5; Flower's default is 0");
}

State FedAvgM::finish(Round& round) {
  State next = BaseMethod::finish(round);
  const at::Tensor start = round.global.parameters().to(at::kDouble);
  const at::Tensor gradient = start - next.parameters();
  velocity_ =
      velocity_.defined() ? momentum_ * velocity_.to(gradient.device()) + gradient : gradient;
  // The neutral setting is FedAvg bit for bit: w - (w - mean) could differ from it by rounding.
  if (momentum_ != 0.0 || lr_ != 1.0) {
    next.parameters().copy_(start - lr_ * velocity_);
  }
  return next;
}

void FedAvgM::save(Archive& archive) const {
  archive.put(kVelocity, velocity_);
}

void FedAvgM::load(const Archive& archive) {
  velocity_ = archive.parameters(kVelocity, at::kDouble);
}

MethodInfo fedavgm_info() {
  return {"fedavgm", "base", "FedAvg with momentum on the server",
          [] { return std::make_unique<FedAvgM>(); }};
}

}  // namespace winnow

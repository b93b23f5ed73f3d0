#include "winnow/method/base/fedopt/fedopt.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "winnow/base/error.h"
#include "winnow/base/math.h"

namespace winnow {
namespace {

constexpr const char* kM = "fedopt.m";
constexpr const char* kV = "fedopt.v";
constexpr const char* kSteps = "fedopt.steps";

MethodInfo info(const std::string& name, const std::string& summary, fedopt::Kind kind) {
  return {name, "base", summary, [kind] { return std::make_unique<FedOpt>(kind); }};
}

}  // namespace

at::Tensor fedopt::second_moment(fedopt::Kind kind, const at::Tensor& v,
                                 const at::Tensor& displacement, double beta2) {
  const at::Tensor square = displacement.square();
  if (kind == fedopt::Kind::adam) {
    return beta2 * v + (1.0 - beta2) * square;
  }
  if (kind == fedopt::Kind::yogi) {
    return v - (1.0 - beta2) * square * (v - square).sign();
  }
  return v + square;
}

double fedopt::bias_correction(fedopt::AdamBias bias, double beta1, double beta2,
                               std::int64_t round) {
  if (bias == fedopt::AdamBias::none) {
    return 1.0;
  }
  const auto power = static_cast<double>(bias == fedopt::AdamBias::flower ? round + 1 : round);
  return std::sqrt(1.0 - math::pow(beta2, power)) / (1.0 - math::pow(beta1, power));
}

FedOpt::FedOpt(fedopt::Kind kind) : kind_(kind) {
  if (kind == fedopt::Kind::yogi) {
    lr_ = 0.01;
  }
  if (kind == fedopt::Kind::adagrad) {
    beta1_ = 0.0;
  }
}

void FedOpt::declare(Params& params) {
  params.add("lr", lr_, "learning rate of the server")
      .at_least(0)
      .source(kind_ == fedopt::Kind::adam ? "Flower; ClipFL uses 0.01" : "Flower");
  params.add("beta1", beta1_, "decay rate of the first moment").range(0, 0.9999).source("Flower");
  if (kind_ != fedopt::Kind::adagrad) {
    params.add("beta2", beta2_, "decay rate of the second moment")
        .range(0, 0.9999)
        .source("Flower");
  }
  params
      .add("tau", tau_,
           "constant added to the root of the second moment: the larger, the less adaptive the "
           "server's steps")
      .above(0)
      .source("Flower, ClipFL");
  params
      .add("v_init", v_init_,
           {{"zero", fedopt::VInit::zero}, {"tau_squared", fedopt::VInit::tau_squared}},
           "second moment before the first round: zero, or tau squared")
      .source("Flower; tau_squared under ClipFL (spec: label-noise C.3)");
  if (kind_ == fedopt::Kind::adam) {
    params
        .add("adam_bias", adam_bias_,
             {{"none", fedopt::AdamBias::none},
              {"standard", fedopt::AdamBias::standard},
              {"flower", fedopt::AdamBias::flower}},
             "bias correction of the moments, which start at zero")
        .source("none in the paper");
  }
}

State FedOpt::finish(Round& round) {
  State next = BaseMethod::finish(round);
  const at::Tensor start = round.global.parameters().to(at::kDouble);
  const at::Tensor displacement = next.parameters() - start;
  if (!m_.defined()) {
    m_ = at::zeros_like(start);
    v_ = at::full_like(start, v_init_ == fedopt::VInit::tau_squared ? tau_ * tau_ : 0.0);
  }
  m_ = beta1_ * m_.to(start.device()) + (1.0 - beta1_) * displacement;
  v_ = fedopt::second_moment(kind_, v_.to(start.device()), displacement, beta2_);
  ++steps_;
  const double lr = lr_ * fedopt::bias_correction(adam_bias_, beta1_, beta2_, steps_);
  next.parameters().copy_(start + lr * m_ / (v_.sqrt() + tau_));
  return next;
}

void FedOpt::save(Archive& archive) const {
  archive.put(kM, m_);
  archive.put(kV, v_);
  if (m_.defined()) {
    archive.values[kSteps] = steps_;
  }
}

void FedOpt::load(const Archive& archive) {
  m_ = archive.parameters(kM, at::kDouble);
  v_ = archive.parameters(kV, at::kDouble);
  steps_ = archive.count(kSteps);
  if (m_.defined() != v_.defined() || m_.defined() != archive.find(kSteps).has_value()) {
    throw Error(ErrorKind::run, fmt::format("{}, {} and {} cannot be combined", kM, kV, kSteps));
  }
}

MethodInfo fedadam_info() {
  return info("fedadam", "FedAvg with Adam on the server", fedopt::Kind::adam);
}

MethodInfo fedyogi_info() {
  return info("fedyogi", "FedAvg with Yogi on the server", fedopt::Kind::yogi);
}

MethodInfo fedadagrad_info() {
  return info("fedadagrad", "FedAvg with Adagrad on the server", fedopt::Kind::adagrad);
}

}  // namespace winnow

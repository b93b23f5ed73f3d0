#include "winnow/method/fedopt/fedopt.h"

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

MethodInfo info(const std::string& name, const std::string& summary, FedOptKind kind) {
  return {name, "base", summary, [kind] { return std::make_unique<FedOpt>(kind); }};
}

}  // namespace

at::Tensor second_moment(FedOptKind kind, const at::Tensor& v, const at::Tensor& displacement,
                         double beta2) {
  const at::Tensor square = displacement.square();
  if (kind == FedOptKind::adam) {
    return beta2 * v + (1.0 - beta2) * square;
  }
  if (kind == FedOptKind::yogi) {
    return v - (1.0 - beta2) * square * (v - square).sign();
  }
  return v + square;
}

double bias_correction(const std::string& bias, double beta1, double beta2, std::int64_t round) {
  if (bias == "none") {
    return 1.0;
  }
  const auto power = static_cast<double>(bias == "flower" ? round + 1 : round);
  return std::sqrt(1.0 - math::pow(beta2, power)) / (1.0 - math::pow(beta1, power));
}

FedOpt::FedOpt(FedOptKind kind) : kind_(kind) {
  if (kind == FedOptKind::yogi) {
    lr_ = 0.01;
  }
  if (kind == FedOptKind::adagrad) {
    beta1_ = 0.0;
  }
}

void FedOpt::declare(Params& params) {
  params.add("lr", lr_, "learning rate of the server")
      .at_least(0)
      .source(kind_ == FedOptKind::adam ? "Flower; ClipFL uses 0.01" : "Flower");
  params.add("beta1", beta1_, "decay of the first moment").range(0, 0.9999).source("Flower");
  if (kind_ != FedOptKind::adagrad) {
    params.add("beta2", beta2_, "decay of the second moment").range(0, 0.9999).source("Flower");
  }
  params.add("tau", tau_, "added to the root of the second moment: how adaptive the steps are")
      .above(0)
      .source("Flower, ClipFL");
  params.add("v_init", v_init_, "second moment before the first round; tau_squared is tau * tau")
      .choices({"zero", "tau_squared"})
      .source("Flower; tau_squared under ClipFL (spec: label-noise C.3)");
  if (kind_ == FedOptKind::adam) {
    params.add("adam_bias", adam_bias_, "correction of the moments' start at zero")
        .choices({"none", "standard", "flower"})
        .source("none in the paper");
  }
}

void FedOpt::begin(const State& global) {
  BaseMethod::begin(global);
  start_ = global.parameters().to(at::kDouble);
}

State FedOpt::finish() {
  State next = BaseMethod::finish();
  const at::Tensor displacement = next.parameters() - start_;
  if (!m_.defined()) {
    m_ = at::zeros_like(start_);
    v_ = at::full_like(start_, v_init_ == "tau_squared" ? tau_ * tau_ : 0.0);
  }
  m_ = beta1_ * m_.to(start_.device()) + (1.0 - beta1_) * displacement;
  v_ = second_moment(kind_, v_.to(start_.device()), displacement, beta2_);
  ++steps_;
  const double lr = lr_ * bias_correction(adam_bias_, beta1_, beta2_, steps_);
  next.parameters().copy_(start_ + lr * m_ / (v_.sqrt() + tau_));
  start_.reset();
  return next;
}

void FedOpt::save(Archive& archive) const {
  if (m_.defined()) {
    archive.tensors[kM] = m_;
    archive.tensors[kV] = v_;
    archive.values[kSteps] = steps_;
  }
}

void FedOpt::load(const Archive& archive) {
  m_ = archive.parameters(kM, at::kDouble);
  v_ = archive.parameters(kV, at::kDouble);
  const auto steps = archive.find(kSteps);
  steps_ = steps ? steps->count() : 0;
  if (m_.defined() != v_.defined() || m_.defined() != steps.has_value()) {
    throw Error(ErrorKind::run, fmt::format("{}, {} and {} do not come together", kM, kV, kSteps));
  }
}

MethodInfo fedadam_info() {
  return info("fedadam", "FedAvg with Adam at the server", FedOptKind::adam);
}

MethodInfo fedyogi_info() {
  return info("fedyogi", "FedAvg with Yogi at the server", FedOptKind::yogi);
}

MethodInfo fedadagrad_info() {
  return info("fedadagrad", "FedAvg with Adagrad at the server", FedOptKind::adagrad);
}

}  // namespace winnow

#include "winnow/method/base/fedexp/fedexp.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace winnow {

double extrapolation(double mean_square, double square_of_mean, double eps) {
  return std::max(1.0, mean_square / (2.0 * (square_of_mean + eps)));
}

void FedExp::declare(Params& params) {
  params
      .add("eps", eps_, "constant that keeps the server's step small when the mean update is small")
      .above(0)
      .source("paper, FNBench");
}

void FedExp::begin(Round& round) {
  BaseMethod::begin(round);
  squares_ = 0.0;
  weights_ = 0.0;
}

void FedExp::add(Round& round, const Upload& upload) {
  BaseMethod::add(round, upload);
  const at::Tensor update =
      upload.model().parameters().to(at::kDouble) - round.global.parameters().to(at::kDouble);
  squares_ += upload.weight() * update.square().sum().item<double>();
  weights_ += upload.weight();
}

State FedExp::finish(Round& round) {
  State next = BaseMethod::finish(round);
  const at::Tensor start = round.global.parameters().to(at::kDouble);
  const at::Tensor update = next.parameters().to(at::kDouble) - start;
  const double step =
      extrapolation(squares_ / weights_, update.square().sum().item<double>(), eps_);
  round.notes["server_step"] = step;
  // A step of 1 is FedAvg bit for bit.
  if (step != 1.0) {
    next.parameters().copy_(start + update * step);
  }
  return next;
}

MethodInfo fedexp_info() {
  return {"fedexp", "base", "FedAvg with longer server steps where clients disagree",
          [] { return std::make_unique<FedExp>(); }};
}

}  // namespace winnow

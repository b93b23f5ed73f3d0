// FedExP (spec: rivals 6.3): FedAvg whose server takes the longer steps the more the clients'
// updates point in different directions.
#pragma once

#include "winnow/method/base_method.h"

namespace winnow {

// max(1, sum_k p_k |D_k|^2 / (2 (|D|^2 + eps))).
double extrapolation(double mean_square, double square_of_mean, double eps);

// Keeps one number per upload and no model beside the mean.
class FedExp final : public BaseMethod {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override {
    return ServerNeeds::models(
        "the length of its step depends on the length of every single update");
  }
  void begin(Round& round) override;
  void add(Round& round, const Upload& upload) override;
  // Notes `server_step`.
  State finish(Round& round) override;

 private:
  double eps_ = 1e-3;
  double squares_ = 0.0;
  double weights_ = 0.0;
};

MethodInfo fedexp_info();

}  // namespace winnow

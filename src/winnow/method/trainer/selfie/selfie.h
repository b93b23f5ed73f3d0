// SELFIE (spec: baselines 23): after a warm-up, clients train on the samples of small loss and on
// those whose predictions have long been the same, and give the latter that class as their label.
#pragma once

#include "winnow/method/base_method.h"

namespace winnow {

namespace selfie {

// The names are those of the method's parameters.
struct Options {
  double noise_rate = 0.2;
  double threshold = 0.05;
  std::int64_t history = 15;
  std::int64_t warmup = 100;
};

}  // namespace selfie

// The server's side is FedAvg's.
class Selfie final : public BaseMethod {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override;

 private:
  selfie::Options options_;
};

MethodInfo selfie_info();

}  // namespace winnow

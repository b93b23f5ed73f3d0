// FedNoRo (spec: rivals 2): noisy clients are found once by the global model's loss on each of
// their classes; from then on they learn from the global model as well as from their labels, and
// count for less the farther their models are from the clean ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "winnow/method/noisy_label/fednoro/two_stage.h"

namespace winnow {

namespace fednoro {

// The names are those of the method's parameters.
struct Options {
  std::int64_t warmup = 10;
  double a = 0.8;
  std::int64_t ramp_begin = 10;
  std::int64_t ramp_end = 49;
  double temperature = 0.8;
  bool distance_weights = true;
};

}  // namespace fednoro

class FedNoRo final : public fednoro::TwoStage {
 public:
  void declare(Params& params) override;
  std::unique_ptr<ClientSide> client_side() const override;

 protected:
  std::string name() const override { return "fednoro"; }
  std::int64_t warmup() const override { return options_.warmup; }
  std::vector<FieldRule> noisy_asks() const override;
  // Notes `distillation`, the weight of the global model's word in the round.
  void fill_noisy(Message& task, std::int64_t round, Json& notes) const override;
  State fuse(HeldModels held, const std::set<std::int64_t>& noisy) const override;

 private:
  fednoro::Options options_;
};

MethodInfo fednoro_info();

}  // namespace winnow

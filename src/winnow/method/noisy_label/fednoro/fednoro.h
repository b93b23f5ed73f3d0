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

class FedNoRo final : public fednoro::TwoStage {
 public:
  void declare(Params& params) override;
  std::unique_ptr<ClientSide> client_side() const override;

 protected:
  std::string name() const override { return "fednoro"; }
  std::int64_t warmup() const override { return warmup_; }
  std::vector<FieldRule> noisy_asks() const override;
  // Notes `distillation`, the weight of the global model's word in the round.
  void fill_noisy(Message& task, std::int64_t round, Json& notes) const override;
  State fuse(HeldModels held, const std::set<std::int64_t>& noisy) const override;

 private:
  std::int64_t warmup_ = 10;
  double a_ = 0.8;
  std::int64_t ramp_begin_ = 10;
  std::int64_t ramp_end_ = 49;
  double temperature_ = 0.8;
  bool distance_weights_ = true;
};

MethodInfo fednoro_info();

}  // namespace winnow

// FedELC (spec: rivals 3): noisy clients are found as FedNoRo finds them, and learn a distribution
// of labels for each of their samples beside the model. MaskedOptim is a switch of it.
#pragma once

#include <cstdint>
#include <memory>

#include "winnow/method/noisy_label/fedelc/client.h"
#include "winnow/method/noisy_label/fednoro/two_stage.h"

namespace winnow {

class FedElc final : public fednoro::TwoStage {
 public:
  void declare(Params& params) override;
  std::unique_ptr<ClientSide> client_side() const override;

 protected:
  std::string name() const override { return "fedelc"; }
  std::int64_t warmup() const override { return options_.warmup; }
  State fuse(HeldModels held, const std::set<std::int64_t>& noisy) const override;

 private:
  fedelc::Options options_;
};

MethodInfo fedelc_info();

}  // namespace winnow

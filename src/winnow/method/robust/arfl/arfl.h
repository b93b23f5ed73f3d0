// ARFL (spec: baselines 14): FedAvg's training; models are weighted by how well their values fit
// robust lines through the sorted values of every coordinate.
#pragma once

#include "winnow/federation/robust/robust_arfl.h"
#include "winnow/method/holding_method.h"

namespace winnow {

// Holds every upload of a round. Neither samples nor the factors of a wrapper count.
class ArflMethod : public HoldingMethod {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("it sorts the values of all models, coordinate by coordinate");
  }
  // Throws Error(kind run) when nothing finite was added. Notes `arfl_clients`, ascending, and
  // `arfl_weights`, what each counted.
  State finish(Round& round) override;
  bool weighs() const override { return false; }

 private:
  ArflOptions options_;
};

MethodInfo arfl_info();

}  // namespace winnow

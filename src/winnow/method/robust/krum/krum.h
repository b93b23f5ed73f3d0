// Krum and Multi-Krum (spec: baselines 11): FedAvg's training; the models that lie closest to their
// nearest neighbours make the next one.
#pragma once

#include <cstdint>

#include "winnow/method/holding_method.h"

namespace winnow {

// Krum: the one model of the lowest score, of equal ones that of the lower client id. Holds every
// upload of a round. Neither samples nor the factors of a wrapper count.
class Krum : public HoldingMethod {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("it measures the distances between all models");
  }
  // Throws Error(kind run) when nothing was added. Notes `selected`, the client whose model it is.
  State finish(Round& round) override;
  bool weighs() const override { return false; }

 private:
  std::int64_t byzantine_ = -1;
};

// Multi-Krum: the mean of the models of the lowest scores, weighted by Upload::weight(). Holds
// every upload of a round.
class MultiKrum : public HoldingMethod {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("it measures the distances between all models");
  }
  // Throws Error(kind run) when nothing was added or the chosen models weigh nothing. Notes
  // `selected`, the clients whose models were averaged, best first.
  State finish(Round& round) override;

 private:
  std::int64_t byzantine_ = -1;
  std::int64_t keep_ = -1;
};

MethodInfo krum_info();
MethodInfo multi_krum_info();

}  // namespace winnow

// Krum and Multi-Krum (spec: baselines 11): FedAvg's training; the models that lie closest to their
// nearest neighbours make the next one.
#pragma once

#include <cstdint>
#include <vector>

#include "winnow/method/holding_method.h"

namespace winnow {

// Krum: the one model of the lowest score, of equal ones that of the lower client id. Holds every
// upload of a round. Neither samples nor the factors of a wrapper count.
class Krum : public HoldingMethod {
 public:
  void declare(Params& params) override;
  // Throws Error(kind run) when nothing was added.
  State finish() override;
  // Notes `selected`, the client whose model it is.
  void note(Json& notes) const override;
  bool weighs() const override { return false; }

 private:
  std::int64_t byzantine_ = -1;
  std::int64_t selected_ = 0;
};

// Multi-Krum: the mean of the models of the lowest scores, weighted by Upload::weight(). Holds
// every upload of a round.
class MultiKrum : public HoldingMethod {
 public:
  void declare(Params& params) override;
  // Throws Error(kind run) when nothing was added or the chosen models weigh nothing.
  State finish() override;
  // Notes `selected`, the clients whose models were averaged, best first.
  void note(Json& notes) const override;

 private:
  std::int64_t byzantine_ = -1;
  std::int64_t keep_ = -1;
  std::vector<std::int64_t> selected_;
};

MethodInfo krum_info();
MethodInfo multi_krum_info();

}  // namespace winnow

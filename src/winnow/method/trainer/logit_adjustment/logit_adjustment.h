// Logit-adjusted cross-entropy (spec: rivals 6.4): a client adds the logarithm of its own class
// frequencies to the logits while it trains, so that what it learns does not lean to the classes it
// has most of.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>

#include "winnow/method/base_method.h"
#include "winnow/train/objective.h"

namespace winnow {

// tau log(n_c / n) of every class, float [classes]; a class without samples has kAbsentClass.
inline constexpr float kAbsentClass = -1e9F;  // its probability is 0 in every precision
at::Tensor log_prior(std::span<const std::int64_t> labels, std::int64_t classes, double tau = 1.0);

// Cross-entropy of logits + `prior`, a trainer's buffer. Label smoothing, temperature and mixup of
// the experiment are not used.
class AdjustedCrossEntropy final : public Objective {
 public:
  explicit AdjustedCrossEntropy(at::Tensor prior) : prior_(std::move(prior)) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override { return "adjusted cross-entropy"; }

 private:
  at::Tensor prior_;
};

// The prior of the client's labels as a trainer's buffer.
at::Tensor prior_buffer(ClientContext& context, double tau = 1.0);

class LogitAdjustment final : public BaseMethod {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override;

 private:
  double tau_ = 1.0;
};

MethodInfo logit_adjustment_info();

}  // namespace winnow

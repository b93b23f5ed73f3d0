// What MOON adds to local training: the features of the model that is trained should be nearer to
// those of the received model than to those of the client's own previous one (spec: baselines 8).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "winnow/train/objective.h"
#include "winnow/train/options.h"

namespace winnow::moon {

// For every row -log[e^(s_g/tau) / (e^(s_g/tau) + e^(s_p/tau))] where s_g and s_p are the cosine
// similarities of the row of `features` with that of `received` and of `previous`. A row of zeros
// is similar to nothing. Where received and previous are equal it is ln 2 and its gradient is zero
// exactly.
at::Tensor contrast(const at::Tensor& features, const at::Tensor& received,
                    const at::Tensor& previous, double tau);

// Cross-entropy as the options have it plus mu times the mean contrast. Model 0 is trained; 1 is
// the received one and 2 the previous one, both as they are outside of training.
class Objective final : public winnow::Objective {
 public:
  Objective(const TrainOptions& options, double mu, double tau);

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  Passes passes(std::int64_t views) const override { return {3 * views, views}; }

 private:
  double label_smoothing_;
  double temperature_;
  double mu_;
  double tau_;
};

}  // namespace winnow::moon

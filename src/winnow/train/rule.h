// What one local training adds to the options of the experiment, and how its steps are taken.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "winnow/train/options.h"
#include "winnow/train/sgd.h"

namespace winnow {

struct LocalRule {
  double proximal = 0.0;  // strength of the pull towards the model training starts from
  Pull pull = Pull::square;
  bool spare_first_batch = false;  // no pull in the first batch of every epoch
  bool head_only = false;          // the body stays as it is, without a backward pass
  at::Tensor drift = {};           // added to the gradient of every step, as long as the parameters
};

enum class Optimizer { sgd, adam, adamw };

// How the steps of a trainer are taken.
struct Stepping {
  double lr = 0.01;
  double momentum = 0.0;  // of SGD
  double weight_decay = 0.0;
  LocalRule rule = {};
  Optimizer optimizer = Optimizer::sgd;
  double beta1 = 0.9;  // of Adam and AdamW
  double beta2 = 0.999;
  double eps = 1e-8;
  std::vector<std::size_t> models = {0};  // those that take them; the others stay as they are
};

// The round's steps as the options have them, taken by these models.
[[nodiscard]] Stepping stepping(const TrainOptions& options, std::int64_t round,
                                std::vector<std::size_t> models = {0});

}  // namespace winnow

// What one local training adds to the options of the experiment, and how its steps are taken.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "winnow/train/sgd.h"

namespace winnow {

struct LocalRule {
  double proximal = 0.0;  // strength of the pull towards the model training starts from
  Pull pull = Pull::square;
  bool spare_first_batch = false;  // no pull in the first batch of every epoch
  bool head_only = false;          // the body stays as it is, without a backward pass
  at::Tensor drift = {};           // added to the gradient of every step, as long as the parameters
};

// How the steps of Lane::run() are taken.
struct Stepping {
  double lr = 0.01;
  double momentum = 0.0;
  double weight_decay = 0.0;
  LocalRule rule = {};
  // Adam with its usual constants in place of SGD: `momentum` is not used, a pull is refused.
  bool adam = false;
  std::vector<std::size_t> models = {0};  // those that take them; the others stay as they are
};

}  // namespace winnow

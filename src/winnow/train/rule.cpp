#include "winnow/train/rule.h"

#include <utility>

namespace winnow {

Stepping stepping(const TrainOptions& options, std::int64_t round,
                  std::vector<std::size_t> models) {
  Optimizer optimizer = Optimizer::sgd;
  if (options.optimizer != "sgd") {
    optimizer = options.optimizer == "adam" ? Optimizer::adam : Optimizer::adamw;
  }
  return {.lr = lr_in(options, round),
          .momentum = options.momentum,
          .weight_decay = options.weight_decay,
          .optimizer = optimizer,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .eps = options.eps,
          .models = std::move(models)};
}

}  // namespace winnow

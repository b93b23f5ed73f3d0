#include "winnow/train/options.h"

#include "winnow/base/math.h"

namespace winnow {

Params declare(TrainOptions& options) {
  Params params;
  params.add("epochs", options.epochs, "passes over the local samples in one participation")
      .range(1, 100000);
  params.add("batch_size", options.batch_size, "samples in one step; the last short batch is kept")
      .range(1, 1000000);
  params.add("lr", options.lr, "learning rate of SGD").at_least(0);
  params.add("lr_decay", options.lr_decay, "lr is multiplied by it after every round")
      .above(0)
      .range(0, 1);
  params.add("momentum", options.momentum, "momentum of SGD; starts afresh in every participation")
      .range(0, 1);
  params.add("weight_decay", options.weight_decay, "L2 penalty, as in PyTorch's SGD").at_least(0);
  params
      .add("label_smoothing", options.label_smoothing,
           "share of the target spread over all classes")
      .range(0, 1);
  params.add("temperature", options.temperature, "logits are divided by it before the softmax")
      .above(0);
  params.add("mixup", options.mixup, "alpha of Beta(alpha, alpha) for mixup; 0 is off").at_least(0);
  params
      .add("eval_batch", options.eval_batch,
           "samples in one evaluation batch; matters for networks that normalise by the batch")
      .range(1, 1000000);
  return params;
}

double lr_in(const TrainOptions& options, std::int64_t round) {
  return options.lr * math::pow(options.lr_decay, static_cast<double>(round));
}

}  // namespace winnow

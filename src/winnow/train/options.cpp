#include "winnow/train/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "winnow/base/error.h"
#include "winnow/base/math.h"

namespace winnow {

Params declare(TrainOptions& options) {
  Params params;
  params.add("epochs", options.epochs, "passes over a client's samples in one participation")
      .range(1, 100000);
  params
      .add("batch_size", options.batch_size,
           "samples in one training step; a smaller last batch is kept")
      .range(1, 1000000);
  params
      .add("optimizer", options.optimizer,
           "optimiser of the clients; its state is reset in every participation")
      .choices({"sgd", "adam", "adamw"});
  params.add("lr", options.lr, "learning rate of the first round").at_least(0);
  params.add("lr_schedule", options.lr_schedule, "how the learning rate changes over the rounds")
      .choices({"exponential", "step", "cosine"});
  params
      .add("lr_decay", options.lr_decay,
           "exponential: the learning rate is multiplied by this after every round; step: after "
           "every lr_step_size rounds")
      .above(0)
      .range(0, 1);
  params
      .add("lr_step_size", options.lr_step_size,
           "step: number of rounds with the same learning rate")
      .range(1, 1e9);
  params.add("lr_min", options.lr_min, "cosine: the learning rate at the end of the run")
      .at_least(0);
  params.add("momentum", options.momentum, "sgd: momentum; reset in every participation")
      .range(0, 1);
  params.add("beta1", options.beta1, "adam, adamw: decay of the first moment").range(0, 0.999999);
  params.add("beta2", options.beta2, "adam, adamw: decay of the second moment").range(0, 0.999999);
  params.add("eps", options.eps, "adam, adamw: constant added to the root of the second moment")
      .above(0);
  params
      .add("weight_decay", options.weight_decay,
           "L2 penalty, as in PyTorch's SGD and Adam; adamw: decoupled from the gradient")
      .at_least(0);
  params
      .add("label_smoothing", options.label_smoothing,
           "share of the target that is spread over all classes")
      .range(0, 1);
  params
      .add("temperature", options.temperature,
           "divisor of the logits before the softmax of the training loss")
      .above(0);
  params
      .add("mixup", options.mixup,
           "alpha of the Beta(alpha, alpha) distribution of mixup weights; 0 turns mixup off")
      .at_least(0);
  params
      .add("eval_batch", options.eval_batch,
           "samples in one evaluation batch; affects results only for networks that always "
           "normalise with batch statistics")
      .range(1, 1000000);
  return params;
}

void check(const TrainOptions& options) {
  if (options.lr_schedule != "cosine") {
    return;
  }
  if (options.lr_decay != 1.0) {
    throw Error(ErrorKind::experiment,
                fmt::format("train.lr_decay = {}: lr_schedule = \"cosine\" does not use it",
                            options.lr_decay),
                "remove it, or choose \"exponential\" or \"step\"");
  }
  if (options.lr_min > options.lr) {
    throw Error(ErrorKind::experiment,
                fmt::format("train.lr_min = {}: expected at most train.lr = {}", options.lr_min,
                            options.lr));
  }
}

double lr_in(const TrainOptions& options, std::int64_t round) {
  if (options.lr_schedule == "cosine") {
    if (options.rounds < 1) {
      throw Error(ErrorKind::internal, "a cosine schedule does not know the rounds of the run");
    }
    const double gone =
        static_cast<double>(std::min(round, options.rounds)) / static_cast<double>(options.rounds);
    return options.lr_min +
           (options.lr - options.lr_min) * (1.0 + math::cos(std::numbers::pi * gone)) / 2.0;
  }
  const std::int64_t times = options.lr_schedule == "step" ? round / options.lr_step_size : round;
  return options.lr * math::pow(options.lr_decay, static_cast<double>(times));
}

double lr_change(const TrainOptions& options, std::int64_t from, std::int64_t to) {
  if (options.lr_schedule == "exponential") {
    return math::pow(options.lr_decay, static_cast<double>(to - from));
  }
  const double before = lr_in(options, from);
  return before == 0.0 ? 1.0 : lr_in(options, to) / before;
}

}  // namespace winnow

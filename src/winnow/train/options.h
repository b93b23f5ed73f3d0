// How a client trains: the [train] table of an experiment.
#pragma once

#include <cstdint>
#include <string>

#include "winnow/base/params.h"

namespace winnow {

struct TrainOptions {
  std::int64_t epochs = 5;
  std::int64_t batch_size = 10;
  std::string optimizer = "sgd";
  double lr = 0.01;
  std::string lr_schedule = "exponential";
  double lr_decay = 1.0;
  std::int64_t lr_step_size = 10;
  double lr_min = 0.0;
  double momentum = 0.5;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double label_smoothing = 0.0;
  double temperature = 1.0;
  double mixup = 0.0;
  std::int64_t eval_batch = 128;
  // Rounds of the run, which a cosine spans. Not a parameter: filled in with the experiment.
  std::int64_t rounds = 0;
};

Params declare(TrainOptions& options);

// Refuses, with Error(kind experiment), keys that contradict each other.
void check(const TrainOptions& options);

// The learning rate of a round, counted from 0: that of PyTorch's scheduler after so many calls.
//   exponential  lr * lr_decay^round
//   step         lr * lr_decay^floor(round / lr_step_size)
//   cosine       lr_min + (lr - lr_min) * (1 + cos(pi * round / rounds)) / 2; lr_min from `rounds`
//   on
[[nodiscard]] double lr_in(const TrainOptions& options, std::int64_t round);

// What the learning rate of round `from` is multiplied by to get that of round `to`.
[[nodiscard]] double lr_change(const TrainOptions& options, std::int64_t from, std::int64_t to);

}  // namespace winnow

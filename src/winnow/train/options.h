// How a client trains: the [train] table of an experiment.
#pragma once

#include <cstdint>
#include <string>

#include "winnow/base/params.h"

namespace winnow {

struct TrainOptions {
  std::int64_t epochs = 5;
  std::int64_t batch_size = 10;
  double lr = 0.01;
  double lr_decay = 1.0;
  double momentum = 0.5;
  double weight_decay = 0.0;
  double label_smoothing = 0.0;
  double temperature = 1.0;
  double mixup = 0.0;
  std::int64_t eval_batch = 128;
};

Params declare(TrainOptions& options);

// The learning rate of a round, decayed.
double lr_in(const TrainOptions& options, std::int64_t round);

}  // namespace winnow

// FedAvg (spec: baselines 1): uniform selection, plain local training, average weighted by samples.
#pragma once

#include "winnow/method/base_method.h"

namespace winnow {

class FedAvg : public BaseMethod {};

MethodInfo fedavg_info();

}  // namespace winnow

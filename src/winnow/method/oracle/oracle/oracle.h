// The oracle (spec: baselines 27): the base method on truly right samples only. It uses ground
// truth, so it is an upper bound to compare with, never a method to deploy.
#pragma once

#include "winnow/method/method.h"

namespace winnow {

MethodInfo oracle_info();

}  // namespace winnow

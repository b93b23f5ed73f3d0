// The oracle (spec: baselines 27): the base method on truly right samples only. It uses ground
// truth, so it is a reference to compare with, never a method to deploy. A method that repairs
// labels keeps more data and can do better.
#pragma once

#include "winnow/method/method.h"

namespace winnow {

MethodInfo oracle_info();

}  // namespace winnow

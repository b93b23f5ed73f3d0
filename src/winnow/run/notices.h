// What a user should know before a run starts, each as one line.
#pragma once

#include <string>
#include <vector>

#include "winnow/method/method.h"
#include "winnow/run/experiment.h"
#include "winnow/run/world.h"

namespace winnow {

// That the method plays another number of rounds than the user has asked for; "" where it does not.
std::string rounds_notice(const Experiment& experiment, const Method& method,
                          const Setting& setting);

// The same before there is a setting, for what comes before any training.
std::string rounds_notice(const Experiment& experiment, const Registry& registry);

// That the test or validation labels are drawn from labels that nobody has checked.
std::vector<std::string> label_notices(const Experiment& experiment, const World& world);

// All of them.
std::vector<std::string> make_notices(const Experiment& experiment, const Method& method,
                                      const Setting& setting, const World& world);

}  // namespace winnow

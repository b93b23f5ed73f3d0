// What a user should know before a run starts, each as one line.
#pragma once

#include <string>
#include <vector>

#include "winnow/experiment/experiment.h"
#include "winnow/experiment/world.h"
#include "winnow/method/method.h"

namespace winnow {

// That the method plays another number of rounds than the user has asked for; "" where it does not.
std::string rounds_notice(const Experiment& experiment, const Method& method,
                          const Setting& setting);

// The same before there is a setting, for what comes before any training.
std::string rounds_notice(const Experiment& experiment, const Registry& registry);

// The keys of [train] that the user set although the optimizer or the schedule does not use them,
// each with what does.
std::vector<std::string> train_notices(const Experiment& experiment);

// That the test or validation labels are drawn from unchecked labels, and which columns of an image
// list are not used.
std::vector<std::string> data_notices(const Experiment& experiment, const World& world);

// All of them.
std::vector<std::string> make_notices(const Experiment& experiment, const Method& method,
                                      const Setting& setting, const World& world);

}  // namespace winnow

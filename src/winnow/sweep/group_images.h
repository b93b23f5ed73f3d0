// Images of the two groups into which a method divided the clients, for a report.
#pragma once

#include "winnow/experiment/registry.h"
#include "winnow/experiment/world.h"

namespace winnow {

// {flagged, others}: nine training images each as their clients see them, distorted or not, drawn
// with the world's seed from all samples of the group; fewer where it holds fewer. An image has
// client, noisy (is it distorted or its given label wrong; null where that is not known) and png,
// the file in base64. What is larger than 64 pixels is made smaller.
Json group_images(const World& world, const std::vector<std::int64_t>& flagged, std::uint64_t seed);

// Gives every run of a report (run/report_data.h) that flags some clients and others not its
// `images`. The data are loaded, dealt out and distorted again as the run's experiment says, once
// for all runs that share them. Throws Error as make_world() does, and kind run where the findings
// name clients that there are not.
void add_group_images(Json& report, const Registry& registry);

}  // namespace winnow

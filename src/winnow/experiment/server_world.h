// The world of a server in a real federation: samples to measure with, and clients whose own
// samples are elsewhere.
#pragma once

#include "winnow/experiment/world.h"

namespace winnow {

// The name of the data set that only such a world can be made of.
inline constexpr const char* kServerData = "server";

// Of [data] name = "server": data.path is an .npz file with test_images and test_labels, and, if
// there are, validation_images with validation_labels, public_images and class_names. They are
// arrays as read_npz_set() takes them; data.layout, float_range, class_names, mean, std, augment
// and crop hold as for the data set "npz". The clients, federation.clients of them, hold nothing.
// Throws Error(kind data), and Error(kind experiment) for another data set.
World server_world(const Experiment& experiment, const Registry& registry);

}  // namespace winnow

// The families of networks that make up the zoo, one file each. A new family is a new file here and
// one more name in builtin_networks().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/model/net.h"

namespace winnow {

std::vector<NetInfo> lenet_nets();
std::vector<NetInfo> cnn_nets();
std::vector<NetInfo> resnet_nets();
std::vector<NetInfo> vgg_nets();
std::vector<NetInfo> mobilenet_nets();
std::vector<NetInfo> convmixer_nets();
std::vector<NetInfo> vit_nets();

// Throws Error(kind experiment) naming the model, the shape and `smallest` when an image has fewer
// than `smallest` rows or columns. With batch norm the smallest size is one that leaves it more
// than one value per channel in a batch of one, where the variance would otherwise be undefined.
void require_size(const std::string& model, const NetShape& shape, std::int64_t smallest);

// The input size of networks that images are resized for (NetInfo::resize). They are built for this
// size whatever the height and width of the shape they are asked for.
inline constexpr std::int64_t kImageNetSize = 224;

}  // namespace winnow

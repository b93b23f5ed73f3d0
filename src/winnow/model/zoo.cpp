#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/model/net.h"
#include "winnow/model/zoo/families.h"

namespace winnow {

const std::vector<NetInfo>& zoo() {
  static const std::vector<NetInfo> nets = [] {
    std::vector<NetInfo> all;
    for (const auto family :
         {lenet_nets, cnn_nets, resnet_nets, vgg_nets, mobilenet_nets, convmixer_nets, vit_nets}) {
      std::ranges::move(family(), std::back_inserter(all));
    }
    return all;
  }();
  return nets;
}

const NetInfo& find_net(const std::string& name) {
  const auto found = std::ranges::find(zoo(), name, &NetInfo::name);
  if (found != zoo().end()) {
    return *found;
  }
  std::vector<std::string> known;
  for (const NetInfo& net : zoo()) {
    known.push_back(net.name);
  }
  throw Error(ErrorKind::experiment, fmt::format("unknown model '{}'", name),
              suggestion(name, known));
}

void require_size(const std::string& model, const NetShape& shape, std::int64_t smallest) {
  if (shape.height >= smallest && shape.width >= smallest) {
    return;
  }
  throw Error(ErrorKind::experiment,
              fmt::format("model '{}' cannot take {}x{}x{} images: it needs at least {}x{}", model,
                          shape.channels, shape.height, shape.width, smallest, smallest),
              fmt::format("set model.resize = {} or more, or choose another model", smallest));
}

}  // namespace winnow

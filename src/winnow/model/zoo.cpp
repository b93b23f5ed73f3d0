#include <fmt/format.h>

#include <utility>

#include "winnow/base/error.h"
#include "winnow/model/net.h"
#include "winnow/model/script_net.h"
#include "winnow/model/zoo/families.h"

namespace winnow {

const Networks& builtin_networks() {
  static const Networks networks = [] {
    Networks all("model", "winnow list models", {kTorchScript});
    for (const auto family :
         {lenet_nets, cnn_nets, resnet_nets, vgg_nets, mobilenet_nets, convmixer_nets, vit_nets}) {
      for (NetInfo& info : family()) {
        all.add(std::move(info));
      }
    }
    return all;
  }();
  return networks;
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

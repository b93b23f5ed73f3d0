#include "winnow/engine/prototype.h"

namespace winnow {
namespace {

NetShape shape_of(const DataSet& data, std::int64_t resize) {
  return {data.classes, data.channels(), resize > 0 ? resize : data.seen_height(),
          resize > 0 ? resize : data.seen_width()};
}

}  // namespace

Prototype::Prototype(const NetInfo& net, const DataSet& data, std::int64_t resize,
                     at::Device device)
    : shape_(shape_of(data, resize)), device_(device), net_(net.make(shape_)) {}

State Prototype::initial_state(std::uint64_t seed) const {
  return net_->weights().initial(seed).to(device_);
}

}  // namespace winnow

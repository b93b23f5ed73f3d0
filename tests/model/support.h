// What the tests of the model layer share: a network bound to buffers of its own, and error texts.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "testing/errors.h"
#include "winnow/base/error.h"
#include "winnow/model/net.h"
#include "winnow/model/state.h"

namespace winnow {

// Standard normal values, the same for the same seed.
inline at::Tensor noise(at::IntArrayRef shape, std::uint64_t seed,
                        at::ScalarType type = at::kFloat) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::dtype(type));
}

// A network that owns the buffers it is bound to. In float64 finite differences are sharp.
struct BoundNet {
  explicit BoundNet(std::unique_ptr<Net> network, std::uint64_t seed = 1,
                    at::ScalarType type = at::kFloat)
      : net(std::move(network)), state(net->weights().initial(seed)) {
    at::set_num_threads(1);
    state.flat = state.flat.to(type);
    gradient = at::zeros({state.layout->parameters()}, at::dtype(type));
    net->weights().bind(state.flat, gradient);
  }

  at::Tensor weight(const std::string& name) const { return state.view(*state.layout->find(name)); }
  at::Tensor gradient_of(const Slot& slot) const {
    return gradient.narrow(0, slot.offset, slot.size);
  }

  std::unique_ptr<Net> net;
  State state;
  at::Tensor gradient;
};

inline BoundNet bound_net(const std::string& name, const NetShape& shape, std::uint64_t seed = 1,
                          at::ScalarType type = at::kFloat) {
  return BoundNet(builtin_networks().find(name).make(shape), seed, type);
}

}  // namespace winnow

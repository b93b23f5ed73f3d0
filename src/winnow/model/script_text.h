// The forward pass of every network of the zoo as TorchScript source.
#pragma once

#include <string>

#include "winnow/model/net.h"
#include "winnow/model/state.h"

namespace winnow {

// A method `forward(self, x)` over modules that hold the tensors of `layout` under their names.
// Computes what the network's own forward() does, also that of projected(), with `self.training`
// for Pass::training. Throws Error(kind internal) for a model that has none; a test asks for those
// of the whole zoo.
std::string script_text(const std::string& model, const NetShape& shape, const Layout& layout);

// Whether there is one: for the networks of the zoo.
bool has_script_text(const std::string& model);

}  // namespace winnow

// Where a key belongs that stands in the wrong table or has another name elsewhere.
#pragma once

#include <string>

#include "winnow/base/params.h"
#include "winnow/experiment/registry.h"

namespace winnow {

// The hint for a key that a table of the experiment does not have: "did you mean 'train.lr'?" for
// `lr` or `learning_rate` in any table. `tree` is the experiment as it was written.
std::string key_hint(const UnknownKey& error, const Json& tree, const Registry& registry);

}  // namespace winnow

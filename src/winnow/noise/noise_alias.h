// Names that people know for kinds of noise. An alias becomes a block of the table of noises before
// anything else is done with it, so that run directories and hashes know one name for one thing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/json.h"
#include "winnow/noise/noise.h"

namespace winnow {

struct NoiseAlias {
  NoiseInfo info;          // its own parameters
  std::string stands_for;  // for people: `fedrn_labels with type = "symmetric", ...`
};
const std::vector<NoiseAlias>& noise_aliases();

// The block that an alias stands for; any other block as it is. Throws Error(kind experiment) for a
// parameter that the alias does not have, and where one is missing that it needs.
Json without_alias(const Json& table, std::string_view where);

}  // namespace winnow

// The log of a run directory, event by event. runner.h has what others call.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "winnow/base/json.h"
#include "winnow/run/metrics.h"

namespace winnow {

// Thrown for an event of a round that does not hold what it should.
struct NoRound {};

// The round that an event is of. Throws NoRound.
RoundRecord round_of(const Json& event);

// Calls `take` with the events in the first `size` bytes of a log, in order; a last line that a
// killed run did not finish is none. Where it refuses one, the error names `path`.
void for_each_event(const std::filesystem::path& path, std::uintmax_t size,
                    const std::function<void(const Json&)>& take);

}  // namespace winnow

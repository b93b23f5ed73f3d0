// The absences of a finished or broken-off run, to be played again.
#pragma once

#include <cstdint>
#include <string>

#include "winnow/federation/absence.h"

namespace winnow {

// Who did not answer in the rounds of an events.jsonl. Throws Error(kind data) when there is no
// such file, and Error(kind run) that names the line when it does not fit a run of so many clients.
Absences read_absences(const std::string& file, std::int64_t clients);

}  // namespace winnow

// Findings about samples as a client remembers them: a row of numbers for each.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/federation/archive.h"
#include "winnow/method/audit/audit/letters.h"

namespace winnow::audit {

inline constexpr const char* kRowsName = "findings";
inline constexpr const char* kOutcomeName = "outcome";

at::Tensor rows_of(const std::vector<SampleFinding>& found);  // double [samples, 20]

// What a client's archive holds of an audit. It may come out of a file: throws Error(kind run) for
// what cannot be of so many samples and classes.
struct Kept {
  std::vector<SampleFinding> found = {};  // empty before the second letter
  // What it was told of itself; without bars. Only once the audit is closed.
  std::optional<Outcome> outcome = {};
};
Kept read_kept(const Archive& archive, std::int64_t samples, std::int64_t classes);

Json outcome_json(const Outcome& outcome);

}  // namespace winnow::audit

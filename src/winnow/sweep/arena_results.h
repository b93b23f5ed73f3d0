// Where an arena comes from: the [arena] table of a sweep file, and the results of its runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "winnow/report/arena.h"
#include "winnow/sweep/sweep.h"

namespace winnow {

// Reads [arena] metric = "last10", reference = "fedavg", both of which may be left out. Throws
// Error(kind experiment) naming the key.
ArenaRule read_arena_rule(const Json& part);
Json arena_rule_json(const ArenaRule& rule);

// What the replies of a method hold beside the trained model and the number of samples, each field
// once. `params` are its own parameters; an empty object: their defaults.
std::vector<Revealed> revealed_by(const std::string& method, const Json& params,
                                  const Registry& registry);

// The arena of a source:
// - the directory of a sweep whose file has an [arena] table;
// - such a file, with results from `results`, a results file, or, where that is empty, from the
//   directory runs/NAME of the sweep;
// - a results file (.csv) alone: its rows are methods, its columns settings, the rule is the usual
//   one. Which cells nobody has begun is not known then.
// Throws Error: kind run naming the source that does not exist or is no arena; kind usage when
// `results` is given with something other than a sweep file.
Arena load_arena(const std::string& source, const std::string& results, const Registry& registry);

// The same of the runs of a report (sweep/report_data.h), as JSON.
Json report_arena(const Json& runs, const ArenaRule& rule, const Registry& registry);

// The rule of a directory that is an arena.
std::optional<ArenaRule> arena_rule_of(const std::filesystem::path& directory);

}  // namespace winnow

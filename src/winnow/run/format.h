// The format of a run directory: one number for all files in it (docs/formats.md). It stands in the
// first event and in summary.json.
#pragma once

#include <cstdint>
#include <filesystem>

#include "winnow/base/json.h"

namespace winnow {

// 1: of Winnow 0.1, which wrote no number. 2: has the number.
inline constexpr std::int64_t kRunFormat = 2;

// Throws Error(kind run) where `format`, that of a file, is newer than the one that this program
// knows: what it would read wrongly it does not read at all. `made_by` is the version that wrote
// the file, or empty.
void refuse_newer(const std::filesystem::path& path, std::int64_t format, std::int64_t known,
                  const std::string& made_by = "");

// The same for a first event or a summary; one without a number is of format 1.
void check_format(const Json& holder, const std::filesystem::path& path);

// What the log of a run directory begins with; an empty object where there is none. Throws
// Error(kind run) when the directory is of a newer format.
Json first_event(const std::filesystem::path& directory);

}  // namespace winnow

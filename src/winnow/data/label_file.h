// Labels from a file of their own: human annotations, or labels that somebody else made noisy.
#pragma once

#include <cstdint>
#include <filesystem>

#include "winnow/data/data_set.h"

namespace winnow {

// One label for each of `expected_count` training samples, in their order, told by extension:
//   .npy  any integer dtype, shape (n,) or (n, 1)
//   .csv  a label per line, or `index,label` lines in any order; a header line is skipped
//   .txt  a label per line
// Empty lines are skipped. Throws Error(kind data) naming the file, the line and what was expected.
Labels read_label_file(const std::filesystem::path& path, std::int64_t expected_count,
                       std::int64_t classes);

}  // namespace winnow

// The directory of a run as a whole: made, refused and removed. runner.h has what others call.
#pragma once

#include <filesystem>
#include <string>

#include "winnow/experiment/experiment.h"

namespace winnow {

// What a process says that finds another one at work there.
std::string at_work_in(const std::filesystem::path& directory);
// Refuses links among everything that a run writes, but for experiment.toml, which is written once
// and only read later.
void refuse_links_of_run(const std::filesystem::path& directory);
// Says what is in the way of a new run.
[[noreturn]] void refuse_existing(const std::filesystem::path& directory);
// Throws Error(kind run) where removing the directory could remove more than a run.
void check_removable(const std::filesystem::path& directory);
// Makes a directory that appears with its experiment inside or not at all.
void create_run_directory(const std::filesystem::path& directory, const Experiment& experiment);

}  // namespace winnow

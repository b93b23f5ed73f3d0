// Child processes: this same program for the runs of a sweep, another one for `bench`.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace winnow {

// Starts this program with other arguments; what it prints goes to the file `log`. It does not see
// the terminal's signals and ends when its parent dies. Throws Error(kind run).
pid_t start_child(const std::vector<std::string>& arguments, const std::filesystem::path& log);

// The same for another program, given by its path or by a name to look for on the PATH. One that
// cannot be started ends with exit code 127.
pid_t start_program(const std::string& program, const std::vector<std::string>& arguments,
                    const std::filesystem::path& log);

// The exit code of a finished child (128 + signal when killed), or nothing while it runs.
std::optional<int> poll_child(pid_t child);

}  // namespace winnow

// `--engine`: who runs the clients.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "winnow/cli/command.h"

namespace winnow {

// An engine that --engine can name.
struct NamedEngine {
  std::string name;
  std::string summary;
};

// Those of this program, then those of the programs that find_engine() would become.
std::vector<NamedEngine> known_engines(const Engines& engines);

// Adds the option to the commands that play rounds.
void add_engine_option(CLI::App& app, Program& program);

// Called when the command line is read, before anything is computed. Where the engine is that of
// the program winnow-mpi, which stands beside this one, this process becomes that program, with the
// same arguments. Throws Error(kind usage) where there is none, and where the command and the way
// it was started (by mpirun, mpiexec or srun) do not go together.
void find_engine(const std::string& command, const Program& program);

// Called by a command when the arithmetic is fixed. Returns whether this process leads; if not, it
// has served the one that does, and the program's exit code is set.
bool leads(Program& program, Runtime& runtime, const std::atomic<bool>* stop);

}  // namespace winnow

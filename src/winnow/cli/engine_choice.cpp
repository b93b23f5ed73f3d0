#include "winnow/cli/engine_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "winnow/base/error.h"
#include "winnow/cli/sibling.h"

namespace winnow {
namespace {

constexpr std::array<std::string_view, 4> kPlaying{"run", "resume", "verify", "bench"};

// How many ranks mpirun has started, of which this process is one; 1 where it has not.
int ranks_of_mpirun() {
  const char* ranks = std::getenv("OMPI_COMM_WORLD_SIZE");  // NOLINT(concurrency-mt-unsafe)
  return ranks == nullptr ? 1 : std::max(1, std::atoi(ranks));
}

}  // namespace

void add_engine_option(CLI::App& app, Program& program) {
  for (const char* name : {"run", "resume", "verify", "bench", "sweep"}) {
    CLI::App* command = app.get_subcommand(name);
    command
        ->add_option("--engine", program.engine,
                     "what runs the clients: local (this process) or mpi (the processes started by "
                     "mpirun or srun)")
        ->type_name("NAME")
        ->expected(1);
    command
        ->add_option("--patience", program.patience,
                     "with --engine mpi: end the job if a process is silent for this many seconds")
        ->type_name("SECONDS")
        ->check(above_zero())
        ->expected(1);
    command
        ->add_option(
            "--fold", program.fold,
            "with --engine mpi: rank 0 adds up whole models (gather), every rank a segment "
            "of each (segments), or whichever is better (best); the result is the same")
        ->type_name("HOW")
        ->capture_default_str()
        ->expected(1);
  }
}

void find_engine(const std::string& command, const Program& program) {
  const bool plays = std::ranges::count(kPlaying, command) > 0;
  if (command == "sweep" && (program.engine != "local" || ranks_of_mpirun() > 1)) {
    throw Error(ErrorKind::usage,
                "a sweep starts a process for each of its runs: they cannot be ranks of MPI",
                "start the sweep without mpirun and --engine, or its runs one by one with "
                "'mpirun winnow run FILE --engine mpi'");
  }
  if (plays && program.engine == "local" && ranks_of_mpirun() > 1) {
    throw Error(ErrorKind::usage,
                fmt::format("mpirun has started {} processes, and each would do the whole run",
                            ranks_of_mpirun()),
                "add --engine mpi");
  }
  if (!plays || program.engines.look_up(program.engine) != nullptr) {
    return;
  }
  if (program.engine != "mpi") {
    throw Error(ErrorKind::usage, fmt::format("unknown engine '{}'", program.engine),
                "there are local and mpi");
  }
  become(
      program, "winnow-mpi", "--engine mpi",
      "install the package winnow-mpi, or libopenmpi-dev and openmpi-bin (./scripts/setup --mpi) "
      "and build with -DWINNOW_MPI=ON");
}

bool leads(Program& program, Runtime& runtime, const std::atomic<bool>* stop) {
  runtime.engine = program.engine;
  runtime.engines = program.engines;
  runtime.patience = program.patience;
  runtime.fold = fold_by(program.fold);
  const EngineInfo& engine = runtime.engines.find(runtime.engine);
  if (!engine.enter) {
    return true;
  }
  const std::optional<int> code = engine.enter(runtime, stop);
  program.exit_code = code.value_or(program.exit_code);
  return !code;
}

}  // namespace winnow

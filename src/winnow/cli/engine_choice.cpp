#include "winnow/cli/engine_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/cli/sibling.h"

namespace winnow {
namespace {

constexpr std::array<std::string_view, 4> kPlaying{"run", "resume", "verify", "bench"};

// The engines of programs that stand beside this one.
struct FarEngine {
  NamedEngine engine;
  const char* program;
  const char* how_to_get;
};
const std::array<FarEngine, 1>& far_engines() {
  static const std::array<FarEngine, 1> engines{
      {{{"mpi", "clients spread over the ranks of an MPI job"},
        "winnow-mpi",
        "install the package winnow-mpi, or libopenmpi-dev and openmpi-bin (./scripts/setup --mpi) "
        "and build with -DWINNOW_MPI=ON"}}};
  return engines;
}

std::vector<std::string> engine_names(const Engines& engines) {
  std::vector<std::string> names;
  for (const NamedEngine& engine : known_engines(engines)) {
    names.push_back(engine.name);
  }
  return names;
}

const char* variable(const char* name) {
  return std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
}

// Who has started several processes, of which this is one, and how many.
struct Launch {
  std::string by;
  int processes = 1;
};

std::optional<Launch> launch() {
  const bool in_slurm = variable("SLURM_NTASKS") != nullptr;
  const auto of = [](const char* by, const char* name) -> std::optional<Launch> {
    const char* value = variable(name);
    const int processes = value == nullptr ? 1 : std::atoi(value);
    return processes > 1 ? std::optional<Launch>({by, processes}) : std::nullopt;
  };
  if (auto found = of("mpirun", "OMPI_COMM_WORLD_SIZE")) {
    return found;
  }
  if (auto found = of(in_slurm ? "srun" : "mpiexec", "PMI_SIZE")) {
    return found;
  }
  // The script of a Slurm job has the number of tasks too, but is none of them itself.
  return variable("PMIX_RANK") == nullptr ? std::nullopt : of("srun", "SLURM_NTASKS");
}

}  // namespace

std::vector<NamedEngine> known_engines(const Engines& engines) {
  std::vector<NamedEngine> known;
  for (const EngineInfo& info : engines) {
    known.push_back({info.name, info.summary});
  }
  for (const FarEngine& far : far_engines()) {
    if (engines.look_up(far.engine.name) == nullptr) {
      known.push_back(far.engine);
    }
  }
  return known;
}

void add_engine_option(CLI::App& app, Program& program) {
  const std::string choices = fmt::format("TEXT:{{{}}}", join(engine_names(program.engines), ","));
  for (const char* name : {"run", "resume", "verify", "bench", "sweep"}) {
    CLI::App* command = app.get_subcommand(name);
    command
        ->add_option("--engine", program.engine,
                     "what runs the clients: local (this process) or mpi (the processes started by "
                     "mpirun or srun)")
        ->type_name(choices)
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
  const std::optional<Launch> launched = launch();
  if (command == "sweep" && (program.engine != "local" || launched)) {
    throw Error(ErrorKind::usage,
                "a sweep starts a process for each of its runs: they cannot be ranks of MPI",
                "start the sweep without mpirun and --engine, or its runs one by one with "
                "'mpirun winnow run FILE --engine mpi'");
  }
  if (plays && program.engine == "local" && launched) {
    throw Error(ErrorKind::usage,
                fmt::format("{} has started {} processes, and each would do the whole run",
                            launched->by, launched->processes),
                "add --engine mpi");
  }
  if (!plays || program.engines.look_up(program.engine) != nullptr) {
    return;
  }
  for (const FarEngine& far : far_engines()) {
    if (far.engine.name == program.engine) {
      become(program, far.program, "--engine " + far.engine.name, far.how_to_get);
    }
  }
  throw Error(ErrorKind::usage, fmt::format("unknown engine '{}'", program.engine),
              suggestion(program.engine, engine_names(program.engines), "winnow list engines"));
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

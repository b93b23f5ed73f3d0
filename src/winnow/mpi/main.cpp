// winnow-mpi: winnow with the engine mpi. `winnow --engine mpi` starts it.
#include "winnow/cli/cli.h"
#include "winnow/cli/early_start.h"
#include "winnow/mpi/job.h"

int main(int argc, char** argv) {
  const winnow::Registry registry = winnow::builtin_registry();
  winnow::Job job(registry);
  return job.finish(winnow::run_program(argc, argv, registry, job.engines()));
}

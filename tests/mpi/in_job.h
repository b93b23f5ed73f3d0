// The tests under mpirun: rank 0 runs them, the others serve it.
#pragma once

#include "run/small_run.h"
#include "winnow/federation/client.h"
#include "winnow/mpi/job.h"

namespace winnow {

// Of the test program; all ranks make the same.
struct InJob {
  Registry registry;
  Job job;
};
InJob& in_job();

// The last rank, which clients of the method "failing" fail on.
int last_rank();

inline Runtime on_ranks(FoldBy fold = FoldBy::best) {
  Runtime runtime = on_cpu(1);
  runtime.fold = fold;
  runtime.engine = "mpi";
  runtime.engines = in_job().job.engines();
  return runtime;
}

}  // namespace winnow

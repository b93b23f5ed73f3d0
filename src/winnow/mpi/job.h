// The MPI job that this process is a rank of, and the engine `mpi` that it makes.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "winnow/method/method.h"
#include "winnow/mpi/leader.h"
#include "winnow/mpi/ranks.h"
#include "winnow/run/engines.h"

namespace winnow {

// MPI starts when a command enters the engine, and ends with finish().
class Job {
 public:
  // The methods that all ranks know; it must outlive the job.
  explicit Job(const Registry& registry) : registry_(registry) {}

  // The engines of a program that is part of the job: local and mpi. They refer to it.
  Engines engines();

  // Starts MPI. Rank 0 sees that all ranks compute alike and returns nothing; the others serve it
  // until it ends and return its exit code. Throws Error(kind run) on rank 0 where a rank differs.
  std::optional<int> enter(double patience, const std::atomic<bool>* stop);
  // Ends MPI on all ranks, where it was started. The code of rank 0 is that of all.
  int finish(int code);

 private:
  void greet();
  Hosted host(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
              const std::atomic<bool>* stop);

  const Registry& registry_;
  std::unique_ptr<Ranks> ranks_;
  std::unique_ptr<Leader> leader_;
  bool serves_ = false;  // it is in enter(), or was
  bool served_ = false;  // it came out of it
};

}  // namespace winnow

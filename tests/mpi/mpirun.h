// The program under mpirun, as a user starts it.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "cli/program.h"

namespace winnow {

// Open MPI as root in a container with two cores and more ranks than that, where processes may not
// read each other's memory.
inline Words mpi_environment() {
  return {"OMPI_ALLOW_RUN_AS_ROOT=1",
          "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
          "OMPI_MCA_rmaps_base_oversubscribe=1",
          "OMPI_MCA_hwloc_base_binding_policy=none",
          "OMPI_MCA_mpi_yield_when_idle=1",
          "OMPI_MCA_pml=ob1",
          "OMPI_MCA_btl=self,vader,tcp",
          "OMPI_MCA_btl_vader_single_copy_mechanism=none",
          "OMPI_MCA_odls_base_sigkill_timeout=2"};
}

// `mpirun -n RANKS winnow ...` with one lane each; of no ranks: winnow alone.
inline Words on(int ranks, Words words) {
  if (ranks > 0) {
    words.insert(words.begin(), {WINNOW_MPIRUN, "-n", std::to_string(ranks), WINNOW_ITSELF});
    words.insert(words.end(), {"--engine", "mpi"});
  } else {
    words.insert(words.begin(), WINNOW_ITSELF);
  }
  words.insert(words.end(), {"--lanes", "1", "--device", "cpu"});
  return words;
}

inline Place with_mpi(const Workshop& shop) {
  return shop.place(mpi_environment());
}

inline Ended call(const Workshop& shop, const Words& words) {
  return winnow_program(words, with_mpi(shop));
}

inline Ended done(const Workshop& shop, const Words& words) {
  Ended ended = call(shop, words);
  EXPECT_EQ(ended.code, 0) << ended.err;
  return ended;
}

// The processes that a process has started, in that order; those of mpirun are its ranks.
inline std::vector<pid_t> children_of(pid_t process) {
  const std::string id = std::to_string(process);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) {
    children.push_back(child);
  }
  return children;
}

}  // namespace winnow

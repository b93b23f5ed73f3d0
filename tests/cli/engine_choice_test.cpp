// `--engine`: which there are, and processes that were started without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/program.h"

namespace winnow::engine_choice_test {

using ::testing::StartsWith;

void expect_refusal(const Ended& ended, const std::string& text) {
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, StartsWith("winnow: " + text));
  EXPECT_EQ(ended.out, "");
}

TEST(List, EnginesAreThoseOfTheProgramAndOfTheOneBesideIt) {
  const Workshop shop;
  EXPECT_EQ(shop.done({"list", "engines"}).out,
            "local  all clients in this process\n"
            "mpi    clients spread over the ranks of an MPI job\n");
  EXPECT_THAT(shop.done({"describe", "mpi"}).out,
              StartsWith("mpi (engine)\nclients spread over the ranks of an MPI job\n"));
  expect_refusal(shop.call({"run", "e.toml", "--engine", "mpl"}),
                 "unknown engine 'mpl'\n  did you mean 'mpi'?");
  expect_refusal(shop.call({"run", "e.toml", "--engine", "cluster"}),
                 "unknown engine 'cluster'\n  known: local, mpi");
}

TEST(Engine, ManyProcessesThatWouldEachDoTheWholeRunAreNoticed) {
  const Workshop shop;
  const auto refused = [&](const Words& environment, const std::string& who) {
    const Place place = shop.place(environment);
    expect_refusal(winnow_program({"run", "e.toml", "--out", "run"}, place),
                   who + " processes, and each would do the whole run\n  add --engine mpi");
    expect_refusal(winnow_program({"sweep", "e.toml"}, place),
                   "a sweep starts a process for each of its runs: they cannot be ranks of MPI");
  };
  refused({"OMPI_COMM_WORLD_SIZE=2"}, "mpirun has started 2");
  refused({"PMI_SIZE=3"}, "mpiexec has started 3");
  refused({"PMI_SIZE=3", "SLURM_NTASKS=3"}, "srun has started 3");
  refused({"PMIX_RANK=1", "SLURM_NTASKS=4"}, "srun has started 4");
  EXPECT_FALSE(std::filesystem::exists(shop / "run"));
  // One task, and the script of a job, which is none of its tasks.
  for (const Words& environment :
       {Words{"PMIX_RANK=0", "SLURM_NTASKS=1"}, Words{"SLURM_NTASKS=4"}, Words{"PMI_SIZE=1"}}) {
    const Place place = shop.place(environment);
    EXPECT_EQ(winnow_program({"run", "none.toml"}, place).code, 3) << environment.front();
  }
}

}  // namespace winnow::engine_choice_test

// `mpirun winnow --engine mpi` as a user sees it: the same run directory for any number of ranks,
// and what becomes of a job that is killed, stopped or cannot start.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "mpi/mpirun.h"
#include "run/method_schedules.h"
#include "winnow/base/arithmetic.h"
#include "winnow/base/files.h"
#include "winnow/base/random.h"
#include "winnow/run/runner.h"

namespace winnow::mpirun_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

namespace fs = std::filesystem;

void expect_same(const fs::path& directory, const fs::path& calm) {
  EXPECT_EQ(hashes(read_history(directory)), hashes(read_history(calm)));
  const Json summary = read_summary(directory);
  const Json expected = read_summary(calm);
  ASSERT_FALSE(summary.is_null());
  for (const char* key : {"model_hash", "rounds", "best", "last", "last10", "participations",
                          "bytes_up", "bytes_down", "client_steps", "ledger_hash"}) {
    EXPECT_EQ(summary.at(key), expected.at(key)) << key;
  }
  EXPECT_EQ(read_file(directory / "model.safetensors"), read_file(calm / "model.safetensors"));
  EXPECT_EQ(read_file(directory / "findings.json"), read_file(calm / "findings.json"));
}

Words small_run(const std::string& method, const std::string& out) {
  Words words{"run", "e.toml", "--quiet", "--out", out};
  const MethodInfo& info = builtin_methods().find(method);
  for (const auto& [key, value] : info.smoke.items()) {
    words.insert(words.end(), {"--set", key + "=" + value.dump()});
  }
  for (const std::string& set :
       {std::string("federation.clients=6"), std::string("data.samples=180"),
        std::string("validation.source=\"split\""), "method.name=\"" + method + "\""}) {
    words.insert(words.end(), {"--set", set});
  }
  return words;
}

class MpirunMethod : public ::testing::TestWithParam<std::string> {};

TEST_P(MpirunMethod, LeavesTheSameRunForAnyNumberOfRanks) {
  const Workshop shop;
  done(shop, on(0, small_run(GetParam(), "local")));
  // All of them are compared in one process by test_mpi; here one, and in the long form all.
  const std::vector<int> some{1 + static_cast<int>(GetParam().size() % 3)};
  for (const int ranks : all_of_it() ? std::vector<int>{1, 2, 3} : some) {
    const std::string name = "mpi" + std::to_string(ranks);
    done(shop, on(ranks, small_run(GetParam(), name)));
    expect_same(shop / name, shop / "local");
    const Json summary = read_summary(shop / name);
    EXPECT_EQ(summary.at("ranks"), ranks);
    EXPECT_EQ(summary.at("lanes"), ranks);
    EXPECT_EQ(summary.at("engine"), "mpi");
  }
}

std::vector<std::string> methods_to_run() {
  if (all_of_it()) {
    return {"fedcorr", "fedrn",    "clipfl", "fedns", "fedncl",
            "fedavg",  "scaffold", "rhfl",   "median"};
  }
  return {"fedcorr", "scaffold", "rhfl"};
}

INSTANTIATE_TEST_SUITE_P(All, MpirunMethod, ::testing::ValuesIn(methods_to_run()),
                         [](const auto& info) { return info.param; });

// The row of a method in experiments/every-method.toml, with the arithmetic of the recorded models.
Words recorded_run(const std::string& method, const std::string& out) {
  Words words{"run",
              "every-method.toml",
              "--quiet",
              "--out",
              out,
              "--arithmetic",
              "avx2",
              "--set",
              "method.name=\"" + method + "\""};
  for (const auto& [key, value] : builtin_methods().find(method).smoke.items()) {
    words.insert(words.end(), {"--set", key + "=" + value.dump()});
  }
  return words;
}

// The models that tests/cli/sweep_test.cpp expects of runs in one process, on real data.
TEST(Mpirun, AnyNumberOfRanksEndsInTheRecordedModels) {
  if (!all_of_it()) {
    GTEST_SKIP() << "in the long form only: WINNOW_TEST_ALL=1";
  }
  if (!cpu_has(Arithmetic::avx2)) {
    GTEST_SKIP() << "this CPU has no avx2, with which the models were recorded";
  }
  const Workshop shop;
  const fs::path source = WINNOW_SOURCE_DIR;
  std::string file = read_file(source / "experiments/every-method.toml");
  const std::string sweep = "methods = \"all\"\n";
  ASSERT_NE(file.find(sweep), std::string::npos);
  file.erase(file.find(sweep), sweep.size());
  write_file_whole(shop / "every-method.toml", file);
  const Json recorded = Json::parse(read_file(source / "tests/cli/every_method_hashes.json"));
  for (const std::string& method : methods_to_run()) {
    for (const int ranks : {1, 2, 3}) {
      const std::string name = method + std::to_string(ranks);
      Words words = on(ranks, recorded_run(method, name));
      words.insert(words.end(), {"--fold", "segments"});
      done(shop, words);
      const Json summary = read_summary(shop / name);
      const std::string fingerprint = summary.at("fingerprint");
      if (!recorded.contains(fingerprint)) {
        GTEST_SKIP() << "no models are recorded for the libraries of this machine, whose "
                        "fingerprint is "
                     << fingerprint;
      }
      EXPECT_EQ(summary.at("model_hash"), recorded.at(fingerprint).at(method))
          << method << " with " << ranks << " ranks";
      EXPECT_EQ(summary.at("ranks"), ranks);
    }
  }
}

// Long enough for a signal to land in its middle, with clients that remember.
Words longer_run(const std::string& out) {
  const std::string rounds = all_of_it() ? "rounds=300" : "rounds=60";
  return {"run",    "e.toml",
          "--out",  out,
          "--set",  rounds,
          "--set",  "checkpoint_every=3",
          "--set",  "train.epochs=4",
          "--set",  "federation.fraction=1.0",
          "--set",  "method.name=\"scaffold\"",
          "--quiet"};
}

std::size_t rounds_logged(const fs::path& directory) {
  return fs::exists(directory / "events.jsonl") ? read_history(directory).size() : 0;
}

TEST(Mpirun, ARankThatIsKilledEndsTheJobAndTheRunGoesOn) {
  const Workshop shop;
  done(shop, on(0, longer_run("calm")));
  Stream random(7, "kills");
  const int kills = all_of_it() ? 20 : 2;
  int killed = 0;
  while (killed < kills) {
    const bool fresh = !fs::exists(shop / "run");
    const std::size_t before = rounds_logged(shop / "run");
    Process process(on(3, fresh ? longer_run("run") : Words{"resume", "run", "--quiet"}),
                    with_mpi(shop));
    wait_until([&] {
      return process.ended() || rounds_logged(shop / "run") >= before + 1 + random.below(4);
    });
    const std::vector<pid_t> ranks = children_of(process.id());
    if (ranks.size() != 3U) {
      break;  // it has come to its end
    }
    const std::size_t victim = random.below(3);
    ::kill(ranks[victim], SIGKILL);
    ++killed;
    const Ended ended = process.wait();
    EXPECT_NE(ended.code, 0);
    EXPECT_THAT(ended.err, HasSubstr("process rank " + std::to_string(victim) + " "));
  }
  EXPECT_EQ(killed, kills) << "the run came to its end before: it needs more rounds";
  // With fewer ranks, and then with none.
  Process fewer(on(2, {"resume", "run", "--quiet"}), with_mpi(shop));
  const std::size_t before = rounds_logged(shop / "run");
  wait_until([&] { return fewer.ended() || rounds_logged(shop / "run") >= before + 4; });
  const std::vector<pid_t> two = children_of(fewer.id());
  EXPECT_THAT(two, SizeIs(2)) << "the run came to its end before: it needs more rounds";
  for (const pid_t rank : two) {
    ::kill(rank, SIGKILL);
  }
  fewer.wait();
  done(shop, on(0, {"resume", "run", "--quiet"}));
  expect_same(shop / "run", shop / "calm");
  EXPECT_THAT(names_in(shop / "run/checkpoint"),
              Each(::testing::AnyOf(StartsWith("round-"), StartsWith("clients-0-"))))
      << "the segments of other ranks have gone";
}

TEST(Mpirun, ATerminatedJobSavesAndACheckpointOfThreeRanksGoesOnWithTwo) {
  const Workshop shop;
  done(shop, on(0, longer_run("calm")));
  Process process(on(3, longer_run("run")), with_mpi(shop));
  ASSERT_TRUE(wait_until([&] { return rounds_logged(shop / "run") >= 4; }));
  for (const pid_t rank : children_of(process.id())) {
    ::kill(rank, SIGTERM);  // as Slurm does
  }
  const Ended ended = process.wait();
  EXPECT_EQ(ended.code, 130);
  EXPECT_THAT(ended.err, HasSubstr("stopped after round "));
  EXPECT_THAT(ended.err, HasSubstr("; continue with: winnow resume run\n"));
  EXPECT_FALSE(fs::exists(shop / "run/summary.json"));
  const std::size_t logged = rounds_logged(shop / "run");
  EXPECT_THAT(names_in(shop / "run/checkpoint"), SizeIs(4)) << "a segment of each rank";
  fs::copy(shop / "run", shop / "again", fs::copy_options::recursive);
  fs::copy(shop / "run", shop / "broken", fs::copy_options::recursive);
  done(shop, on(2, {"resume", "run", "--quiet"}));
  expect_same(shop / "run", shop / "calm");
  EXPECT_THAT(read_file(shop / "run/events.jsonl"),
              HasSubstr("{\"event\":\"resumed\",\"rounds_done\":" + std::to_string(logged) + ","));
  done(shop, on(0, {"resume", "again", "--quiet"}));
  expect_same(shop / "again", shop / "calm");
  // Rank 1 has no name left for its segment of the next checkpoint, and says so through rank 0.
  const std::string last = "clients-1-1000000000000.segment";
  const fs::path in_the_way = shop / ("broken/checkpoint/" + last);
  fs::create_directories(in_the_way / "something");  // so that it is not removed
  const Ended broken = call(shop, on(2, {"resume", "broken", "--quiet"}));
  EXPECT_EQ(broken.code, 5);
  EXPECT_THAT(broken.err, HasSubstr("winnow: rank 1 ("));
  EXPECT_THAT(broken.err, HasSubstr(last + ", and no higher number is possible\n"));
  EXPECT_EQ(broken.err.find("winnow: "), broken.err.rfind("winnow: ")) << "it is said once";
  fs::remove_all(in_the_way);
  done(shop, on(3, {"resume", "broken", "--quiet"}));
  expect_same(shop / "broken", shop / "calm");
}

// Every rank in a folder of its own, which each of them calls /proc/self/cwd.
Words in_own_folders(const Workshop& shop, const Words& run) {
  Words words{WINNOW_MPIRUN};
  for (const std::string rank : {"0", "1"}) {
    fs::create_directories(shop / rank);
    words.insert(words.end(), {"-n", "1", "-wdir", (shop / rank).string(), WINNOW_ITSELF});
    words.insert(words.end(), run.begin(), run.end());
    words.insert(words.end(), {"--engine", "mpi", "--lanes", "1", "--device", "cpu", "--quiet"});
    words.push_back(":");
  }
  words.pop_back();
  return words;
}

TEST(Mpirun, ADirectoryThatIsNotSharedIsSaidAfterTheFirstRound) {
  const Workshop shop;
  const std::string experiment = (shop / "e.toml").string();
  const Words run{"run", experiment, "--out", "/proc/self/cwd/run", "--set", "checkpoint_every=3"};
  Words remembering = run;
  remembering.insert(remembering.end(),
                     {"--set", "method.name=\"scaffold\"", "--set", "federation.fraction=1.0"});
  const Ended ended = call(shop, in_own_folders(shop, remembering));
  EXPECT_EQ(ended.code, 5);
  EXPECT_THAT(ended.err, HasSubstr("winnow: rank 1 ("));
  EXPECT_THAT(ended.err,
              HasSubstr(") does not see the run directory /proc/self/cwd/run, where it would have "
                        "to save what its clients remember\n  put the run directory on a file "
                        "system that all nodes share\n"));
  EXPECT_EQ(rounds_logged(shop / "0/run"), 0U) << "it is not said only at the first checkpoint";
  EXPECT_THAT(names_in(shop / "0/run"), Not(Contains(HasSubstr("seen"))));
  EXPECT_FALSE(fs::exists(shop / "1/run"));
  fs::remove_all(shop / "0/run");
  done(shop, in_own_folders(shop, run));  // whose clients remember nothing
}

// It passes the signal on only after a while, and kills after the same time again.
TEST(Mpirun, ATerminatedMpirunLetsTheRanksSave) {
  const Workshop shop;
  Words words = longer_run("run");
  words.insert(words.end(), {"--set", "rounds=5000"});
  Process process(on(2, words), with_mpi(shop));
  ASSERT_TRUE(wait_until([&] { return rounds_logged(shop / "run") >= 2; }));
  process.send(SIGTERM);
  const Ended ended = process.wait();
  EXPECT_NE(ended.code, 0);
  EXPECT_FALSE(fs::exists(shop / "run/summary.json"));
  EXPECT_THAT(names_in(shop / "run/checkpoint"),
              Contains(fmt::format("round-{:09d}.safetensors", rounds_logged(shop / "run"))))
      << "all that was played is saved: " << ended.err;
}

TEST(Mpirun, ASilentRankIsNamedAndGivenUp) {
  const Workshop shop;
  Words words = longer_run("run");
  words.insert(words.end(), {"--patience", "1.5"});
  Process process(on(2, words), with_mpi(shop));
  ASSERT_TRUE(wait_until([&] { return rounds_logged(shop / "run") >= 2; }));
  const std::vector<pid_t> ranks = children_of(process.id());
  ASSERT_EQ(ranks.size(), 2U);
  ::kill(ranks[1], SIGSTOP);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.code, 5);
  EXPECT_THAT(ended.err, HasSubstr("winnow: rank 1 ("));
  EXPECT_THAT(ended.err, HasSubstr(") has been silent for 1.5 seconds and is given up\n"));
}

// What a rank holds of its images and of itself.
struct Held {
  std::string world;           // the memory with the images, as the system names it
  std::int64_t anonymous = 0;  // bytes that are the process's own
};

Held held_by(pid_t rank) {
  const std::string folder = "/proc/" + std::to_string(rank);
  Held held;
  std::ifstream maps(folder + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (const auto start = line.find("00:"); line.find("memfd:winnow-world") != line.npos) {
      held.world = line.substr(start);  // device, inode, name
    }
  }
  std::ifstream sums(folder + "/smaps_rollup");
  for (std::string line; std::getline(sums, line);) {
    if (line.starts_with("Anonymous:")) {
      held.anonymous = std::stoll(line.substr(10)) * 1024;
    }
  }
  return held;
}

// Of two ranks in the middle of a run with so many images of 784 bytes.
std::vector<Held> held_with(const Workshop& shop, std::int64_t images) {
  const std::string out = "run" + std::to_string(images);
  Process process(on(2, {"run", "e.toml", "--out", out, "--quiet", "--set", "rounds=100000",
                         "--set", "federation.clients=500", "--set", "federation.fraction=0.004",
                         "--set", fmt::format("data.samples={}", images)}),
                  with_mpi(shop));
  EXPECT_TRUE(wait_until([&] { return process.ended() || rounds_logged(shop / out) >= 2; }));
  const std::vector<pid_t> ranks = children_of(process.id());
  std::vector<Held> held;
  for (const pid_t rank : ranks) {
    held.push_back(held_by(rank));
  }
  for (const pid_t rank : ranks) {
    ::kill(rank, SIGTERM);
  }
  EXPECT_EQ(process.wait().code, 130);
  return held;
}

TEST(Mpirun, RanksOfANodeHoldTheImagesOnce) {
  const Workshop shop;
  const std::int64_t images = 50'000;
  const std::vector<Held> small = held_with(shop, 1000);
  const std::vector<Held> large = held_with(shop, images);
  ASSERT_THAT(large, SizeIs(2));
  ASSERT_THAT(small, SizeIs(2));
  EXPECT_THAT(large[0].world, HasSubstr("memfd:winnow-world"));
  EXPECT_EQ(large[0].world, large[1].world);
  for (const std::size_t rank : {0, 1}) {
    EXPECT_LT(large[rank].anonymous - small[rank].anonymous, images * 784 / 2) << "rank " << rank;
  }
}

TEST(Mpirun, RanksThatComputeOtherwiseAreRefused) {
  const Workshop shop;
  if (!cpu_has(Arithmetic::avx2)) {
    GTEST_SKIP() << "this CPU has one arithmetic only";
  }
  const Words run{WINNOW_ITSELF, "run", "e.toml",  "--out", "run",
                  "--engine",    "mpi", "--lanes", "1"};
  Words words{WINNOW_MPIRUN, "-n", "1", "-x", "WINNOW_ARITHMETIC=avx2"};
  words.insert(words.end(), run.begin(), run.end());
  words.insert(words.end(), {":", "-n", "1", "-x", "WINNOW_ARITHMETIC=baseline"});
  words.insert(words.end(), run.begin(), run.end());
  const Ended ended = call(shop, words);
  EXPECT_EQ(ended.code, 5);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("winnow: rank 1 ("),
                               HasSubstr(") computes otherwise than rank 0: arithmetic baseline"),
                               HasSubstr("with --arithmetic, say avx2")));
  EXPECT_FALSE(fs::exists(shop / "run"));
  words.insert(words.end(), {"--arithmetic", "avx2"});
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (*word == ":") {
      words.insert(word, {"--arithmetic", "avx2"});
      break;
    }
  }
  done(shop, words);
}

TEST(Mpirun, VerifyAndBenchRunOnRanks) {
  const Workshop shop;
  done(shop, on(2, {"run", "e.toml", "--out", "run", "--quiet"}));
  EXPECT_THAT(done(shop, on(2, {"verify", "run"})).out, HasSubstr("4 rounds verified"));
  const Json bench =
      done(shop,
           on(2, {"bench", "--job", "clients-100", "--seconds", "0.1", "--peer", "none", "--json"}))
          .json();
  EXPECT_EQ(bench.at(0).at("winnow").at("ranks"), 2);
  EXPECT_GT(bench.at(0).at("winnow").at("bytes_received"), 0);
}

// Long enough that all ranks have several replies in every round.
TEST(Mpirun, SegmentsLeaveTheSameRunWithLessSentToRankZero) {
  const Workshop shop;
  const auto run = [](const std::string& out) {
    return Words{
        "run",   "e.toml", "--set",  "federation.clients=12", "--set", "federation.fraction=1.0",
        "--out", out,      "--quiet"};
  };
  done(shop, on(0, run("local")));
  std::map<std::string, std::int64_t> received;
  for (const std::string fold : {"gather", "segments"}) {
    Words words = on(3, run(fold));
    words.insert(words.end(), {"--fold", fold});
    done(shop, words);
    expect_same(shop / fold, shop / "local");
    received[fold] = read_summary(shop / fold).at("bytes_received");
  }
  EXPECT_LT(2 * received.at("segments"), received.at("gather"));
}

// A line for each rank: the cores that it may run on.
std::vector<std::int64_t> cores_of_ranks(const Workshop& shop, const std::string& binding) {
  std::vector<std::int64_t> cores;
  std::istringstream lines(
      done(shop, {WINNOW_MPIRUN, "-n", "2", "--bind-to", binding, "nproc"}).out);
  for (std::int64_t count = 0; lines >> count;) {
    cores.push_back(count);
  }
  return cores;
}

Words bound_run(const std::string& binding, const std::string& out) {
  return {WINNOW_MPIRUN, "-n",     "2",     "--bind-to", binding,    WINNOW_ITSELF,
          "run",         "e.toml", "--out", out,         "--engine", "mpi",
          "--device",    "cpu",    "--set", "rounds=1"};
}

TEST(Mpirun, WithoutLanesARankHasOneForEachOfItsCores) {
  const Workshop shop;
  const std::vector<std::int64_t> unbound = cores_of_ranks(shop, "none");
  const std::vector<std::int64_t> bound = cores_of_ranks(shop, "core");
  ASSERT_THAT(unbound, SizeIs(2));
  ASSERT_THAT(bound, SizeIs(2));
  if (unbound[0] == bound[0]) {
    GTEST_SKIP() << "this machine has one core only";
  }
  const Ended shared = done(shop, bound_run("none", "shared"));
  EXPECT_THAT(shared.err, Not(HasSubstr("--bind-to")));
  EXPECT_EQ(read_summary(shop / "shared").at("lanes"), unbound[0] / 2 * 2) << "both have all cores";
  const Ended own = done(shop, bound_run("core", "own"));
  EXPECT_THAT(own.err, Not(HasSubstr("--bind-to")));
  EXPECT_EQ(read_summary(shop / "own").at("lanes"), bound[0] + bound[1]);
}

TEST(Mpirun, MoreLanesThanCoresAreSaidFirst) {
  const Workshop shop;
  const std::vector<std::int64_t> cores = cores_of_ranks(shop, "core");
  ASSERT_THAT(cores, SizeIs(2));
  const std::int64_t lanes = cores[0] + 2;
  Words words = bound_run("core", "run");
  words.insert(words.end(), {"--lanes", std::to_string(lanes)});
  const Ended ended = done(shop, words);
  for (const std::string rank : {"rank 0 (", "rank 1 ("}) {
    EXPECT_THAT(ended.err, HasSubstr(rank));
  }
  EXPECT_THAT(ended.err,
              HasSubstr(fmt::format(") has {0} lanes on {1} {2}: start with 'mpirun --bind-to "
                                    "none', or with '--map-by slot:PE={0}' or 'srun "
                                    "--cpus-per-task={0}'\n",
                                    lanes, cores[0], cores[0] == 1 ? "core" : "cores")));
  EXPECT_EQ(read_summary(shop / "run").at("lanes"), 2 * lanes);
}

TEST(Mpirun, WrongUsageIsOneLineWithExitCodeTwo) {
  const Workshop shop;
  const Ended forgotten = call(shop, {WINNOW_MPIRUN, "-n", "2", WINNOW_ITSELF, "run", "e.toml"});
  EXPECT_EQ(forgotten.code, 2);
  EXPECT_THAT(forgotten.err,
              HasSubstr("winnow: mpirun has started 2 processes, and each would do the whole run\n"
                        "  add --engine mpi\n"));
  const Ended sweep =
      call(shop, {WINNOW_ITSELF, "sweep", "e.toml", "--jobs", "2", "--engine", "mpi"});
  EXPECT_EQ(sweep.code, 2);
  EXPECT_THAT(sweep.err, StartsWith("winnow: a sweep starts a process for each of its runs: they "
                                    "cannot be ranks of MPI\n"));
  const Ended unknown = call(shop, {WINNOW_ITSELF, "run", "e.toml", "--engine", "mpl"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err, "winnow: unknown engine 'mpl'\n  did you mean 'mpi'?\n");
  const Ended fold = call(shop, on(2, {"run", "e.toml", "--fold", "half"}));
  EXPECT_EQ(fold.code, 2);
  EXPECT_THAT(fold.err, HasSubstr("winnow: --fold half: unknown\n  expected best, gather or "
                                  "segments\n"));
  // The first rank of the node fails to make the world that the other waits for.
  const Ended data = call(shop, on(2, {"run", "e.toml", "--out", "none", "--set",
                                       "data.name=\"npz\"", "--set", "data.path=\"missing.npz\""}));
  EXPECT_EQ(data.code, 4);
  EXPECT_THAT(data.err, HasSubstr("missing.npz"));
  EXPECT_EQ(data.err.find("winnow: "), data.err.rfind("winnow: ")) << data.err;
  EXPECT_FALSE(fs::exists(shop / "none"));
  const Ended file = call(shop, on(2, {"run", "missing.toml"}));
  EXPECT_EQ(file.code, 3);
  EXPECT_THAT(file.err, HasSubstr("missing.toml"));
  // One rank says it.
  EXPECT_EQ(file.err.find("winnow: "), file.err.rfind("winnow: ")) << file.err;
}

TEST(Mpirun, TheProgramItselfLoadsNoMpiAndSaysWhatIsMissing) {
  const Workshop shop;
  EXPECT_THAT(done(shop, {"ldd", WINNOW_ITSELF}).out,
              AllOf(HasSubstr("libtorch"), Not(HasSubstr("libmpi")), Not(HasSubstr("libgrpc"))));
  fs::create_directories(shop / "alone");
  fs::copy(WINNOW_ITSELF, shop / "alone/winnow");
  const std::string alone = (shop / "alone/winnow").string();
  const Ended ended = call(shop, {alone, "run", "e.toml", "--engine", "mpi"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.err, "winnow: --engine mpi: " + alone +
                           "-mpi is not there\n  install the package winnow-mpi, or "
                           "libopenmpi-dev and openmpi-bin (./scripts/setup --mpi) and build with "
                           "-DWINNOW_MPI=ON\n");
  EXPECT_FALSE(fs::exists(shop / "runs"));
}

TEST(Mpirun, WithoutMpirunItIsARunOfOneRank) {
  const Workshop shop;
  done(shop, {WINNOW_ITSELF, "run", "e.toml", "--out", "one", "--engine", "mpi", "--quiet"});
  done(shop, {WINNOW_ITSELF, "run", "e.toml", "--out", "local", "--quiet"});
  expect_same(shop / "one", shop / "local");
  EXPECT_EQ(names_in(shop / "one/checkpoint"), names_in(shop / "local/checkpoint"));
}

}  // namespace winnow::mpirun_test

// Runs that are stopped, killed or out of space: nothing is lost and the end is the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "cli/program.h"
#include "winnow/base/random.h"
#include "winnow/run/runner.h"

namespace winnow::crash_test {

using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// A run that is long enough for signals to land in its middle: 150 rounds take about three seconds.
Words longer_run(const std::string& out, int rounds = 150) {
  const std::string set_rounds = "rounds=" + std::to_string(rounds);
  return {"run",      "e.toml", "--out",          out,     "--quiet",           "--set",
          set_rounds, "--set",  "train.epochs=2", "--set", "checkpoint_every=4"};
}

std::size_t rounds_logged(const fs::path& directory) {
  return fs::exists(directory / "events.jsonl") ? read_history(directory).size() : 0;
}

// Both runs went through the same models and ended in the same one.
void expect_same(const fs::path& directory, const fs::path& calm) {
  EXPECT_EQ(hashes(read_history(directory)), hashes(read_history(calm)));
  const Json summary = read_summary(directory);
  const Json expected = read_summary(calm);
  ASSERT_FALSE(summary.is_null());
  for (const char* key : {"model_hash", "rounds", "best", "last", "last10", "participations",
                          "bytes_up", "bytes_down", "client_steps", "ledger_hash"}) {
    EXPECT_EQ(summary.at(key), expected.at(key)) << key;
  }
  EXPECT_EQ(lines(read_file(directory / "metrics.csv")), lines(read_file(calm / "metrics.csv")));
  EXPECT_EQ(read_file(directory / "model.safetensors"), read_file(calm / "model.safetensors"));
  EXPECT_THAT(names_in(directory), Not(Contains(EndsWith(".tmp"))));
  const auto names = names_in(directory / "checkpoint");
  EXPECT_EQ(std::ranges::count_if(names, [](const auto& n) { return n.starts_with("round-"); }), 1);
  EXPECT_LE(names.size(), 3U) << "what is dead is removed";
}

class Stopped : public ::testing::TestWithParam<int> {};

TEST_P(Stopped, SavesSaysHowToContinueAndEndsInTheSameBits) {
  constexpr int kRounds = 40;
  const Workshop shop;
  shop.done(longer_run("calm", kRounds));
  Process process(longer_run("run", kRounds), shop.place());
  ASSERT_TRUE(wait_until([&] { return rounds_logged(shop / "run") >= 5; }));
  process.send(GetParam());
  const Ended ended = process.wait();
  EXPECT_EQ(ended.code, 130) << ended.err;
  EXPECT_THAT(ended.err, StartsWith("stopped after round "));
  EXPECT_THAT(ended.err, EndsWith("; continue with: winnow resume run\n"));
  EXPECT_FALSE(fs::exists(shop / "run/summary.json"));
  const std::size_t done = rounds_logged(shop / "run");
  EXPECT_THAT(ended.err, HasSubstr("after round " + std::to_string(done) + ";"));
  EXPECT_LT(done, static_cast<std::size_t>(kRounds));
  shop.done({"resume", "run", "--quiet"});
  expect_same(shop / "run", shop / "calm");
  EXPECT_THAT(read_file(shop / "run/events.jsonl"),
              HasSubstr("{\"event\":\"resumed\",\"rounds_done\":" + std::to_string(done) + ","))
      << "no finished round was played twice";
}

INSTANTIATE_TEST_SUITE_P(BySignal, Stopped, ::testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& info) {
                           return std::string(info.param == SIGINT    ? "Interrupt"
                                              : info.param == SIGTERM ? "Terminate"
                                                                      : "HangUp");
                         });

// `timeout` sends a signal to the program and then to its process group.
TEST(StoppedTwice, BySignalsThatComeInARowSavesAllTheSame) {
  const Workshop shop;
  Process process(longer_run("run"), shop.place());
  ASSERT_TRUE(wait_until([&] { return rounds_logged(shop / "run") >= 2; }));
  for (int i = 0; i < 5; ++i) {
    process.send(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const Ended ended = process.wait();
  EXPECT_EQ(ended.code, 130) << ended.err;
  EXPECT_THAT(ended.err, StartsWith("stopped after round "));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kKills = 4;  // a start alone takes seconds there
#else
constexpr int kKills = 20;
#endif

// The systems are killed as often in the long form alone.
int kills_of(const std::string& method) {
  return all_of_it() || method == "fedavg" ? kKills : std::min(kKills, 6);
}

// A system with a schedule in which every phase is reached, and all phases can be killed in.
struct Victim {
  std::string method;
  Words sets;
};

Words run_of(const Victim& victim, const std::string& out) {
  Words words = longer_run(out);
  Words sets = victim.sets;
  sets.insert(sets.end(), {"method.name=\"" + victim.method + "\"", "federation.clients=8",
                           "validation.source=\"split\""});
  for (const std::string& set : sets) {
    words.insert(words.end(), {"--set", set});
  }
  return words;
}

class Killed : public ::testing::TestWithParam<Victim> {};

TEST_P(Killed, AtRandomMomentsAndStillTheSameBits) {
  constexpr std::uint64_t kSeed = 20;
  const auto longer = [](const std::string& out) { return run_of(GetParam(), out); };
  const Workshop shop;
  shop.done(longer("calm"));
  Stream stream(kSeed, "kill-test");
  std::cout << "seed " << kSeed << ", killed after seconds (rounds logged):";
  const int wanted = kills_of(GetParam().method);
  int kills = 0;
  int turn = 0;
  int finished = 0;
  fs::path directory = shop / "run0";
  while (kills < wanted && turn < 4 * wanted) {
    ++turn;
    const std::string name = directory.filename().string();
    const Words words = fs::exists(directory) ? Words{"resume", name, "--quiet"} : longer(name);
    Process process(words, shop.place());
    const double delay = stream.uniform(0.0, 0.9);
    std::this_thread::sleep_for(std::chrono::duration<double>(delay));
    if (!process.ended()) {
      process.send(SIGKILL);
    }
    const Ended ended = process.wait();
    if (ended.code == -SIGKILL) {
      ++kills;
      std::cout << ' ' << delay << " (" << rounds_logged(directory) << ")";
      continue;
    }
    // It was done before the signal, or on its way out when that came.
    EXPECT_EQ(ended.code, 0) << ended.err;
    expect_same(directory, shop / "calm");
    ++finished;
    directory = shop / ("run" + std::to_string(finished));
  }
  std::cout << "; " << finished << " runs ended in between" << std::endl;
  EXPECT_EQ(kills, wanted);
  const std::string name = directory.filename().string();
  shop.done(fs::exists(directory) ? Words{"resume", name, "--quiet"} : longer(name));
  expect_same(directory, shop / "calm");
  EXPECT_EQ(shop.call({"verify", name, "--rounds", "3"}).code, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Systems, Killed,
    ::testing::Values(
        Victim{"fedavg", {}},
        Victim{"fedcorr",
               {"method.iterations=4", "method.finetune_rounds=30", "method.usual_rounds=30",
                "method.lid_neighbours=5", "method.theta=0.2"}},
        Victim{"fedrn", {"rounds=60", "method.warmup=20", "method.neighbours=2"}},
        Victim{"clipfl", {"rounds=80", "method.pre_rounds=40", "method.keep=2"}},
        Victim{"fedns", {"rounds=80", "method.first_round_fraction=0.25"}},
        Victim{"fedncl", {"rounds=80", "method.penalty_rounds=30", "method.confidence=0.2"}}),
    [](const auto& info) { return info.param.method; });

TEST(Locked, ASecondProcessIsKeptOutOfARun) {
  const Workshop shop;
  Process process(longer_run("run"), shop.place());
  ASSERT_TRUE(wait_until([&] { return rounds_logged(shop / "run") >= 1; }));
  const Ended second = shop.call({"resume", "run"});
  EXPECT_EQ(second.code, 5);
  EXPECT_EQ(second.err, "winnow: another process is running in run\n");
  process.send(SIGTERM);
  EXPECT_EQ(process.wait().code, 130);
}

TEST(FullDisk, IsOneClearLineAndNothingIsLost) {
  const Workshop shop;
  shop.done({"run", "e.toml", "--out", "calm", "--quiet"});
  Place narrow = shop.place();
  narrow.largest_file = 100'000;  // less than the model
  const Ended ended = winnow_program({"run", "e.toml", "--out", "run", "--quiet"}, narrow);
  EXPECT_EQ(ended.code, 5) << ended.err;
  EXPECT_THAT(ended.err, StartsWith("winnow: cannot write run/checkpoint/round-"));
  EXPECT_THAT(ended.err, HasSubstr(": File too large\n"));
  EXPECT_LE(lines(ended.err), 2U) << ended.err;
  EXPECT_FALSE(fs::exists(shop / "run/summary.json"));
  EXPECT_THAT(names_in(shop / "run/checkpoint"), ::testing::IsEmpty());
  shop.done({"resume", "run", "--quiet"});
  expect_same(shop / "run", shop / "calm");
}

TEST(FullDisk, WithoutRoomForTheFirstFileThereIsNoDirectory) {
  const Workshop shop;
  Place narrow = shop.place();
  narrow.largest_file = 600;  // less than experiment.toml
  const Ended ended = winnow_program({"run", "e.toml", "--out", "run", "--quiet"}, narrow);
  EXPECT_EQ(ended.code, 5) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("File too large"));
  EXPECT_THAT(names_in(shop / "."), ::testing::ElementsAre("e.toml"));
}

}  // namespace winnow::crash_test

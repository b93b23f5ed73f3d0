#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"
#include "winnow/run/bench.h"

namespace winnow::bench_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The shortest measurement there is, and no peer unless one is named.
Words tiny(const Words& more = {}) {
  Words words{"bench",   "--job", "clients-100", "--seconds", "0.1",
              "--lanes", "2",     "--device",    "cpu"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A workshop with a peer that is a shell script.
class PeerShop : public Workshop {
 public:
  explicit PeerShop(const std::string& script) { write_file_whole(*this / "peer.sh", script); }

  Ended measure(const Words& more = {}) const {
    Words words = tiny({"--python", "sh", "--peer", "peer.sh"});
    words.insert(words.end(), more.begin(), more.end());
    return done(words);
  }
};

TEST(Bench, ListsItsJobs) {
  const Ended ended = Workshop().done({"bench", "--list"});
  EXPECT_THAT(ended.out, StartsWith("job "));
  for (const BenchJob& job : bench_jobs()) {
    EXPECT_THAT(ended.out, HasSubstr("\n" + job.name + " "));
  }
  const Json list = Workshop().done({"bench", "--list", "--json"}).json();
  ASSERT_EQ(list.size(), bench_jobs().size());
  EXPECT_EQ(list[0].at("job"), "lenet5-b10");
  EXPECT_EQ(list[0].at("samples_per_client"), 600);
}

TEST(Bench, AnUnknownJobIsAUsageErrorBeforeAnythingIsMeasured) {
  const Ended ended = Workshop().call({"bench", "--job", "lenet5-b10", "--job", "clients-10"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.out, "");
  EXPECT_EQ(ended.err, "winnow: unknown job 'clients-10'\n  did you mean 'clients-100'?\n");
}

TEST(Bench, BadValuesOfFlagsAreUsageErrors) {
  for (const Words& words : {Words{"bench", "--seconds", "-1"},
                             {"bench", "--seconds", "x"},
                             {"bench", "--device", "tpu"},
                             {"bench", "clients-100"}}) {
    const Ended ended = Workshop().call(words);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_THAT(ended.err, StartsWith("winnow: "));
    EXPECT_LE(lines(ended.err), 2U) << ended.err;
  }
}

TEST(Bench, AMissingPeerIsSaidBelowTheTable) {
  const Ended ended = Workshop().done(tiny());
  EXPECT_THAT(ended.out, StartsWith("job          steps/s  peer steps/s  ratio  "));
  EXPECT_THAT(ended.out, HasSubstr("\nclients-100  "));
  EXPECT_THAT(ended.out, HasSubstr("  -             -      "));
  EXPECT_THAT(
      ended.out,
      ContainsRegex("\nwinnow: LibTorch [^ ]+, cpu, fp32, lanes 2; matrix products reach "));
  EXPECT_THAT(
      ended.out,
      HasSubstr("\nno peer: bench/peer/fedavg.py does not exist; name it with --peer PATH\n"));
  EXPECT_EQ(ended.err, "");
}

TEST(Bench, JsonHasTheNumbersOfBoth) {
  const PeerShop shop(R"(echo 'a warning' >&2
echo '{"steps_per_second": 10.0, "torch": "9.9"}')");
  const Json rows = shop.measure({"--json"}).json();
  ASSERT_EQ(rows.size(), 1U);
  const Json& ours = rows[0].at("winnow");
  EXPECT_EQ(rows[0].at("job"), "clients-100");
  EXPECT_EQ(ours.at("lanes"), 2);
  EXPECT_EQ(ours.at("client_steps").get<int>(), 100 * ours.at("rounds").get<int>());
  EXPECT_EQ(rows[0].at("peer").at("torch"), "9.9");
  EXPECT_DOUBLE_EQ(rows[0].at("ratio").get<double>(),
                   ours.at("steps_per_second").get<double>() / 10.0);
  EXPECT_FALSE(rows[0].contains("peer_missing"));
}

TEST(Bench, JsonWithoutAPeerSaysWhy) {
  const Json rows = Workshop().done(tiny({"--json"})).json();
  EXPECT_TRUE(rows[0].at("peer").is_null());
  EXPECT_TRUE(rows[0].at("ratio").is_null());
  EXPECT_THAT(rows[0].at("peer_missing").get<std::string>(), HasSubstr("does not exist"));
}

TEST(Bench, ThePeerIsToldTheJobAndItsNumbersAreShown) {
  const PeerShop shop(R"(echo "$@" > arguments
echo '{"steps_per_second": 12.5, "torch": "9.9", "device": "cpu", "precision": "fp32",)"
                      R"( "threads": 3, "peak_memory_mb": 77.0}')");
  const Ended ended = shop.measure({"--peer-arg=--threads=3", "--peer-arg=--eval-every=1"});
  EXPECT_EQ(read_file(shop / "arguments"),
            "--job clients-100 --model lenet5 --channels 1 --size 28 --batch 10 --clients 100 "
            "--samples-per-client 6 --cohort 100 --epochs 1 --lr 0.01 --device cpu --seconds 0.1 "
            "--threads=3 --eval-every=1\n");
  EXPECT_THAT(ended.out, HasSubstr("  12.5  "));
  EXPECT_THAT(ended.out, HasSubstr("  77 MB  "));
  EXPECT_THAT(ended.out, HasSubstr("\npeer: torch 9.9, cpu, fp32, threads 3\n"));
  EXPECT_THAT(ended.out, Not(HasSubstr("no peer")));
}

TEST(Bench, APeerThatFailsIsNoFailureOfTheBenchmark) {
  const PeerShop shop("echo 'Traceback:'\necho \"No module named 'torch'\" >&2\nexit 1\n");
  EXPECT_THAT(shop.measure().out,
              HasSubstr("\nno peer: it ended with exit code 1: No module named 'torch'\n"));
  EXPECT_THAT(shop.measure({"--python", "no-such-python"}).out,
              HasSubstr("\nno peer: cannot start 'no-such-python'\n"));
}

// The peer can be run without Winnow, so it has a table of its own.
TEST(Bench, ThePeersJobsAreOurs) {
  const std::string script =
      read_file(std::filesystem::path(WINNOW_SOURCE_DIR) / "bench/peer/fedavg.py");
  for (const BenchJob& job : bench_jobs()) {
    if (!job.has_peer()) {
      continue;
    }
    EXPECT_THAT(script, HasSubstr(fmt::format(
                            "\n    \"{}\": (\"{}\", {}, {}, {}, {}, {}, {}, {}, {}),\n", job.name,
                            job.model, job.channels, job.size, job.batch, job.clients,
                            job.samples_per_client, job.cohort, job.epochs, job.lr)));
  }
}

}  // namespace winnow::bench_test

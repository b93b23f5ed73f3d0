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
  if (std::ranges::count(more, "--repeats") == 0) {
    words.insert(words.end(), {"--repeats", "1"});
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A workshop with a peer that is a shell script.
class PeerShop : public Workshop {
 public:
  explicit PeerShop(const std::string& script) { write_file_whole(*this / "peer.sh", script); }

  Ended measure(const Words& more = {}) const {
    Words words{"--python", "sh", "--peer", "peer.sh"};
    words.insert(words.end(), more.begin(), more.end());
    return done(tiny(words));
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
                             {"bench", "--repeats", "0"},
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
  EXPECT_THAT(
      ended.out,
      ContainsRegex("^job          steps/s  spread  peer steps/s  spread  ratio  samples/s  "
                    "ceiling  of ceiling  of peak  memory  "));
  EXPECT_THAT(ended.out, HasSubstr("\nclients-100  "));
  EXPECT_THAT(ended.out, HasSubstr("  -             -       -      "));
  EXPECT_THAT(ended.out, HasSubstr("\nceiling: batches of 512 in clients-100\n"));
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

TEST(Bench, BothAreMeasuredInTurnsAndTheMediansShown) {
  const PeerShop shop(R"(echo "$@" >> arguments
n=$(wc -l < arguments)
echo "{\"steps_per_second\": $((n == 1 ? 10 : n == 2 ? 60 : n * 10 - 10)), \"torch\": \"9.9\"}")");
  const Json rows = shop.measure({"--json", "--repeats", "4"}).json();
  const Json& peer = rows[0].at("peer");
  EXPECT_EQ(peer.at("speeds"), Json({10.0, 60.0, 20.0, 30.0}));
  EXPECT_EQ(peer.at("steps_per_second"), 25.0);
  EXPECT_EQ(peer.at("spread"), 2.0);
  EXPECT_THAT(read_file(shop / "arguments"), HasSubstr(" --seconds 0.025\n"))
      << "a quarter of the time for each of four";
  const Json& ours = rows[0].at("winnow");
  auto speeds = ours.at("speeds").get<std::vector<double>>();
  ASSERT_EQ(speeds.size(), 4U);
  std::ranges::sort(speeds);
  const double median = (speeds[1] + speeds[2]) / 2.0;
  EXPECT_DOUBLE_EQ(ours.at("steps_per_second").get<double>(), median);
  EXPECT_DOUBLE_EQ(ours.at("spread").get<double>(), (speeds[3] - speeds[0]) / median);
  EXPECT_GE(ours.at("seconds"), 0.1);
  EXPECT_DOUBLE_EQ(rows[0].at("ratio").get<double>(), median / 25.0);
}

TEST(Bench, TheCeilingIsWhatLargeBatchesReach) {
  const Json rows = Workshop().done(tiny({"--json"})).json();
  const Json& ours = rows[0].at("winnow");
  EXPECT_EQ(ours.at("ceiling_batch"), 512);
  const auto ceiling = ours.at("ceiling_samples_per_second").get<double>();
  EXPECT_GT(ceiling, 0.0);
  // A client of the job has six samples and so takes steps of six.
  EXPECT_DOUBLE_EQ(ours.at("ceiling_steps_per_second").get<double>(), ceiling / 6.0);
  EXPECT_DOUBLE_EQ(ours.at("ceiling_share").get<double>(),
                   ours.at("samples_per_second").get<double>() / ceiling);
  EXPECT_FALSE(rows[0].contains("graph_peer")) << "which is for a GPU";
}

TEST(Bench, NothingIsLeftInTheTemporaryFolder) {
  const PeerShop shop(R"(echo '{"steps_per_second": 10.0}')");
  std::filesystem::create_directory(shop / "tmp");
  Place place = shop.place();
  place.environment = {"TMPDIR=" + (shop / "tmp").string()};
  const Ended ended = winnow_program(tiny({"--python", "sh", "--peer", "peer.sh"}), place);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(names_in(shop / "tmp"), ::testing::IsEmpty());
}

TEST(Bench, WhatThePeerPrintsGoesToAFileThatNobodyCanHavePrepared) {
  // The peer sees its own output as a file of a name with random digits.
  const PeerShop shop(R"(where=$(readlink /proc/$$/fd/1)
echo "$where" > name
echo '{"steps_per_second": 10.0}')");
  shop.measure();
  EXPECT_THAT(read_file(shop / "name"),
              ContainsRegex("/winnow_bench\\.log\\.winnow-[0-9a-f]+\\.tmp"));
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

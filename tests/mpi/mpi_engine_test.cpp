// The engine mpi against the local one: the same bits for every method, whatever the number of
// ranks, and nothing left behind by what fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "mpi/in_job.h"
#include "run/method_schedules.h"
#include "testing/errors.h"
#include "winnow/run/checkpoint.h"
#include "winnow/run/summary.h"

namespace winnow::mpi_engine_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What a run ends with, apart from its times and how it was executed.
Json end_of(const Session& session) {
  Json summary = make_summary(session);
  for (const char* key :
       {"train_seconds", "wall_seconds", "lanes", "engine", "ranks", "bytes_received"}) {
    summary.erase(key);
  }
  return summary;
}

// A round without its times.
Json told(const Session::Played& played) {
  Json json = played.record.to_json();
  json.erase("seconds");
  json.erase("train_seconds");
  return {{"record", json},
          {"notes", played.notes},
          {"quality", played.quality},
          {"labels", played.labels}};
}

void expect_same_rounds(const Experiment& experiment) {
  const Registry& registry = in_job().registry;
  Session local(experiment, registry, on_cpu(2), nullptr);
  std::vector<Json> expected;
  while (local.rounds_done() < local.rounds()) {
    expected.push_back(told(local.play()));
  }
  local.measure_local_models();
  for (const FoldBy fold : {FoldBy::gather, FoldBy::segments}) {
    Session ranks(experiment, registry, on_ranks(fold), nullptr);
    ASSERT_EQ(ranks.engine().workforce().ranks, last_rank() + 1);
    ASSERT_EQ(ranks.engine().workforce().lanes, last_rank() + 1) << "one each";
    ASSERT_EQ(ranks.engine().forms_sums(), fold == FoldBy::segments && last_rank() > 0);
    for (const Json& round : expected) {
      ASSERT_EQ(told(ranks.play()), round)
          << "round " << ranks.rounds_done() << (fold == FoldBy::gather ? ", gathered" : "");
    }
    ranks.measure_local_models();
    EXPECT_EQ(end_of(ranks), end_of(local));
  }
}

std::vector<std::string> all_names() {
  return builtin_methods().names();
}

class MpiMethod : public ::testing::TestWithParam<std::string> {};

TEST_P(MpiMethod, PlaysEveryRoundAsTheLocalEngineDoes) {
  expect_same_rounds(experiment_with(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(All, MpiMethod, ::testing::ValuesIn(all_names()),
                         [](const auto& info) { return info.param; });

TEST(MpiEngine, DropsOutTheSameClients) {
  expect_same_rounds(experiment_with("scaffold", {"federation.dropout=0.3"}));
}

TEST(MpiEngine, FormsTheSameFixedSums) {
  for (const char* method : {"fedavg", "scaffold", "coteaching"}) {
    expect_same_rounds(
        experiment_with(method, {"federation.sums=\"fixed\"", "federation.dropout=0.2"}));
  }
}

// Running statistics and counters weigh on their own, and some fill a segment of theirs.
TEST(MpiEngine, FoldsNetworksWithRunningStatistics) {
  const std::vector<std::string> few{"model.name=\"resnet18\"", "data.samples=40", "rounds=1",
                                     "data.test_samples=8", "federation.fraction=1.0"};
  const auto with = [&](const std::string& method) {
    std::vector<std::string> sets = few;
    sets.push_back("method.name=\"" + method + "\"");
    return small(sets);
  };
  expect_same_rounds(with("fedavg"));
  expect_same_rounds(with("feddyn"));
}

// What rank 0 receives in a round of twelve clients.
std::int64_t received(FoldBy fold, const std::vector<std::string>& sets) {
  std::vector<std::string> all{"data.samples=480", "federation.clients=12",
                               "federation.fraction=1.0", "rounds=3", "eval_every=3"};
  all.insert(all.end(), sets.begin(), sets.end());
  Session session(small(all), in_job().registry, on_ranks(fold), nullptr);
  session.play();
  const std::int64_t before = session.engine().workforce().bytes_received;
  session.play();
  return session.engine().workforce().bytes_received - before;
}

TEST(MpiEngine, RankZeroReceivesLessInSegments) {
  const auto of = [](const std::vector<std::string>& sets) {
    const std::int64_t gathered = received(FoldBy::gather, sets);
    EXPECT_EQ(received(FoldBy::best, sets), received(FoldBy::segments, sets));
    return std::pair{gathered, received(FoldBy::segments, sets)};
  };
  if (last_rank() != 2) {
    GTEST_SKIP() << "for three ranks";
  }
  const auto [gathered, segments] = of({});
  EXPECT_LT(2 * segments, gathered);
  EXPECT_GT(3 * segments, gathered) << "a third of the replies, and the segments of the others";
  const auto [gathered_twins, segments_twins] = of({"method.name=\"coteaching\""});
  EXPECT_LT(2 * segments_twins, gathered_twins);
  // A sum of whole numbers by each of the two others, 8 bytes a value.
  const auto [gathered_words, words] = of({"federation.sums=\"fixed\""});
  EXPECT_LT(words, gathered_words);
}

// All ranks of the tests are on one node.
TEST(MpiEngine, LargeModelsOfOneNodeAreGatheredByDefault) {
  if (last_rank() != 2) {
    GTEST_SKIP() << "for three ranks";
  }
  const std::vector<std::string> large{"model.name=\"cnn2\"", "data.samples=12",
                                       "federation.clients=6"};
  const std::int64_t gathered = received(FoldBy::gather, large);
  EXPECT_LT(received(FoldBy::segments, large), gathered);
  EXPECT_EQ(received(FoldBy::best, large), gathered);
}

TEST(MpiEngine, MeasuresEnsemblesAndLastModelsAndManyPieces) {
  expect_same_rounds(experiment_with("rhfl", {"method.evaluate=\"ensemble\""}));
  expect_same_rounds(
      experiment_with("fedavg", {"local_accuracy=true", "train.eval_batch=1", "rounds=2"}));
  expect_same_rounds(experiment_with("clipfl", {"train.eval_batch=1"}));
}

// Memory lies where the clients were served, and comes back to wherever it is needed.
class MpiCheckpoint : public ::testing::TestWithParam<std::string> {};

TEST_P(MpiCheckpoint, GoesOnLocallyAndOnTheRanks) {
  const TestFolder folder;
  const Experiment experiment = GetParam() == "remembering" ? small({"method.name=\"remembering\""})
                                                            : experiment_with(GetParam());
  const Registry& registry = in_job().registry;
  Session calm(experiment, registry, on_cpu(), nullptr);
  while (calm.rounds_done() < calm.rounds()) {
    calm.play();
  }
  Session ranks(experiment, registry, on_ranks(FoldBy::segments), nullptr);
  ranks.play();
  ranks.play();
  Checkpoint saved = ranks.checkpoint();
  saved.parts = ranks.save_parts(folder.path());
  save_checkpoint(folder.path(), saved);
  if (last_rank() > 0) {
    EXPECT_GT(saved.parts.size(), 0U);
  } else {
    EXPECT_EQ(saved.parts.size(), 0U);
  }
  for (const Runtime& runtime : {on_cpu(), on_ranks(FoldBy::gather), on_ranks(FoldBy::segments)}) {
    Session resumed(experiment, registry, runtime, nullptr);
    Checkpoint loaded = *load_checkpoint(folder.path(), experiment.hash(), resumed.global().layout);
    loaded.history = saved.history;
    resumed.restore(std::move(loaded));
    while (resumed.rounds_done() < resumed.rounds()) {
      resumed.play();
    }
    EXPECT_EQ(hashes(resumed.history()), hashes(calm.history())) << runtime.engine;
    EXPECT_EQ(end_of(resumed), end_of(calm)) << runtime.engine;
  }
}

INSTANTIATE_TEST_SUITE_P(WithMemory, MpiCheckpoint,
                         ::testing::Values("remembering", "scaffold", "rhfl", "joint_optimisation"),
                         [](const auto& info) { return info.param; });

TEST(MpiEngine, AForgedMemoryIsRefusedWhereverItGoes) {
  const Experiment experiment = small({"method.name=\"remembering\"", "federation.fraction=1.0"});
  Session session(experiment, in_job().registry, on_cpu(), nullptr);
  session.play();
  for (const std::int64_t client : {0, 1, 2, 3}) {
    Checkpoint forged = session.checkpoint();
    forged.clients.at(client).trace.labels->push_back(0);
    Session ranks(experiment, in_job().registry, on_ranks(), nullptr);
    EXPECT_THAT(error_text([&] { ranks.restore(forged); }),
                HasSubstr("client " + std::to_string(client) + ": it has 41 labels"));
  }
  Checkpoint forged = session.checkpoint();
  forged.clients[17] = forged.clients.at(0);
  Session ranks(experiment, in_job().registry, on_ranks(), nullptr);
  EXPECT_THAT(error_text([&] { ranks.restore(forged); }),
              StartsWith("client 17: it is not one of the 4 clients"));
}

TEST(MpiEngine, AnInterruptedRoundLeavesNoTrace) {
  const Experiment experiment = small({"method.name=\"remembering\"", "federation.fraction=1.0"});
  const std::vector<std::string> calm = undisturbed_hashes(experiment);
  for (const FoldBy fold : {FoldBy::gather, FoldBy::segments}) {
    std::atomic<bool> stop = false;
    Session session(experiment, in_job().registry, on_ranks(fold), &stop);
    while (session.rounds_done() < session.rounds()) {
      stop = true;
      EXPECT_THROW(session.play(), Interrupted);
      stop = false;
      session.play();
    }
    EXPECT_EQ(hashes(session.history()), calm);
  }
}

// Ranks then keep replies for which nobody asks any more.
TEST(MpiEngine, AnErrorOfTheServerInTheMiddleLeavesNoTrace) {
  const std::vector<std::string> all{"federation.fraction=1.0"};
  const Experiment plain = small(all);
  const Experiment experiment = parse_experiment(
      small_tree({"federation.fraction=1.0", "method.name=\"choking\""}), in_job().registry);
  for (const FoldBy fold : {FoldBy::gather, FoldBy::segments}) {
    Session session(experiment, in_job().registry, on_ranks(fold), nullptr);
    session.play();
    EXPECT_EQ(error_text([&] { session.play(); }), "too much at once");
    while (session.rounds_done() < session.rounds()) {
      session.play();
    }
    EXPECT_EQ(hashes(session.history()), undisturbed_hashes(plain));
  }
}

// The error of one rank is everybody's, and the next run on the same ranks knows nothing of it.
TEST(MpiEngine, AnErrorOnARankNamesItAndTheJobGoesOn) {
  const Experiment experiment = parse_experiment(
      small_tree({"method.name=\"failing\"", "federation.fraction=1.0"}), in_job().registry);
  Session session(experiment, in_job().registry, on_ranks(FoldBy::segments), nullptr);
  session.play();
  try {
    session.play();
    FAIL() << "it did not fail";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_EQ(error.hint(), "mend it");
    const std::string text = error.what();
    EXPECT_THAT(text, HasSubstr("the tape is torn"));
    if (last_rank() > 0) {
      EXPECT_THAT(text, StartsWith("rank " + std::to_string(last_rank()) + " ("));
    }
  }
  EXPECT_EQ(session.rounds_done(), 1);
  expect_same_rounds(small({"rounds=1"}));
}

bool reads_shared_world() {
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  return text.find("memfd:winnow-world") != std::string::npos;
}

// While it is there the system gives this process no file of more than some bytes, nor memory that
// is one.
class NoLargeFiles {
 public:
  NoLargeFiles() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{1000, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~NoLargeFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  NoLargeFiles(const NoLargeFiles&) = delete;
  NoLargeFiles& operator=(const NoLargeFiles&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int);
};

TEST(MpiEngine, WithoutSharedMemoryEveryRankMakesTheWorld) {
  const Experiment experiment = small({"method.name=\"remembering\""});
  const auto open = [&] {
    return std::make_unique<Session>(experiment, in_job().registry, on_ranks(), nullptr);
  };
  EXPECT_FALSE(reads_shared_world());
  auto session = open();
  EXPECT_EQ(reads_shared_world(), last_rank() > 0);
  session.reset();
  {
    const NoLargeFiles none;
    session = open();
  }
  EXPECT_FALSE(reads_shared_world());
  while (session->rounds_done() < session->rounds()) {
    session->play();
  }
  EXPECT_EQ(hashes(session->history()), undisturbed_hashes(experiment));
}

TEST(MpiEngine, ABadExperimentFailsAsItDoesInOneProcess) {
  const Experiment experiment = small({"data.name=\"npz\"", "data.path=\"/nowhere.npz\""});
  const auto open = [&](const Runtime& runtime) {
    return error_text([&] { Session(experiment, in_job().registry, runtime, nullptr); });
  };
  EXPECT_EQ(open(on_ranks()), open(on_cpu()));
  expect_same_rounds(small({"rounds=1"}));
}

}  // namespace winnow::mpi_engine_test

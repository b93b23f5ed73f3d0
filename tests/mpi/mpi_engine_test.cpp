// The engine mpi against the local one: the same bits for every method, whatever the number of
// ranks, and nothing left behind by what fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  Session ranks(experiment, registry, on_ranks(), nullptr);
  ASSERT_EQ(ranks.engine().workforce().ranks, last_rank() + 1);
  ASSERT_EQ(ranks.engine().workforce().lanes, last_rank() + 1) << "one each";
  while (local.rounds_done() < local.rounds()) {
    ASSERT_EQ(told(ranks.play()), told(local.play())) << "round " << local.rounds_done();
  }
  local.measure_local_models();
  ranks.measure_local_models();
  EXPECT_EQ(end_of(ranks), end_of(local));
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
  Session ranks(experiment, registry, on_ranks(), nullptr);
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
  for (const Runtime& runtime : {on_cpu(), on_ranks()}) {
    Session resumed(experiment, registry, runtime, nullptr);
    Checkpoint loaded = *load_checkpoint(folder.path(), experiment.hash(), resumed.crew().layout());
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
  std::atomic<bool> stop = false;
  Session session(experiment, in_job().registry, on_ranks(), &stop);
  while (session.rounds_done() < session.rounds()) {
    stop = true;
    EXPECT_THROW(session.play(), Interrupted);
    stop = false;
    session.play();
  }
  EXPECT_EQ(hashes(session.history()), calm);
}

// The error of one rank is everybody's, and the next run on the same ranks knows nothing of it.
TEST(MpiEngine, AnErrorOnARankNamesItAndTheJobGoesOn) {
  const Experiment experiment = parse_experiment(
      small_tree({"method.name=\"failing\"", "federation.fraction=1.0"}), in_job().registry);
  Session session(experiment, in_job().registry, on_ranks(), nullptr);
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

TEST(MpiEngine, ABadExperimentFailsAsItDoesInOneProcess) {
  const Experiment experiment = small({"data.name=\"npz\"", "data.path=\"/nowhere.npz\""});
  const auto open = [&](const Runtime& runtime) {
    return error_text([&] { Session(experiment, in_job().registry, runtime, nullptr); });
  };
  EXPECT_EQ(open(on_ranks()), open(on_cpu()));
  expect_same_rounds(small({"rounds=1"}));
}

}  // namespace winnow::mpi_engine_test

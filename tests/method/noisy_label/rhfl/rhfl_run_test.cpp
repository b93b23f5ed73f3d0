// Whole runs of RHFL: clients with two networks, measured by their own models.
#include <gtest/gtest.h>

#include "run/small_run.h"
#include "winnow/method/noisy_label/rhfl/rhfl.h"
#include "winnow/model/safetensors.h"
#include "winnow/run/checkpoint.h"
#include "winnow/run/runner.h"
#include "winnow/run/summary.h"

namespace winnow::rhfl::rhfl_run_test {

Registry only_rhfl() {
  return builtin_registry();
}

Experiment experiment(const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets{"rounds=3",
                                "federation.fraction=1.0",
                                "data.samples=100",
                                "data.test_samples=24",
                                "data.size=16",
                                "public.source=\"split\"",
                                "public.size=20",
                                "method.name=\"rhfl\"",
                                "method.networks=[\"lenet5\", \"cnn4\"]",
                                "method.pretrain_epochs=2",
                                "method.batch_size=16",
                                "method.public_batch=12"};
  sets.insert(sets.end(), more.begin(), more.end());
  return parse_experiment(small_tree(sets), only_rhfl());
}

void play_to_end(Session& session) {
  while (session.rounds_done() < session.rounds()) {
    session.play();
  }
}

Json end_of(const Session& session) {
  Json summary = make_summary(session);
  for (const char* key : {"train_seconds", "wall_seconds", "lanes"}) {
    summary.erase(key);
  }
  return summary;
}

TEST(RHFLRun, EndsInTheSameBitsForAnyNumberOfLanesAndAfterACheckpoint) {
  Session one(experiment(), only_rhfl(), on_cpu(1), nullptr);
  play_to_end(one);
  Session two(experiment(), only_rhfl(), on_cpu(2), nullptr);
  play_to_end(two);
  EXPECT_EQ(hashes(two.history()), hashes(one.history()));
  EXPECT_EQ(end_of(two), end_of(one));
  const std::vector<std::string> all = hashes(one.history());
  EXPECT_NE(all[0], all[1]);
  EXPECT_NE(all[1], all[2]);

  const TestFolder folder;
  std::atomic<bool> stop = true;
  Session running(experiment(), only_rhfl(), on_cpu(2), &stop);
  EXPECT_THROW(running.play(), Interrupted);
  stop = false;
  running.play();
  Session resumed(experiment(), only_rhfl(), on_cpu(2), nullptr);
  resumed.restore(through_files(folder.path(), running));
  play_to_end(resumed);
  EXPECT_EQ(hashes(resumed.history()), all);
  EXPECT_EQ(end_of(resumed), end_of(one));
}

TEST(RHFLRun, MeasuresTheClientsModelsAndTheirEnsemble) {
  Session mean(experiment({"rounds=1"}), only_rhfl(), on_cpu(), nullptr);
  Session ensemble(experiment({"rounds=1", "method.evaluate=\"ensemble\""}), only_rhfl(), on_cpu(),
                   nullptr);
  const State untouched = mean.global();
  play_to_end(mean);
  play_to_end(ensemble);
  EXPECT_EQ(hash(mean.global()), hash(untouched));
  EXPECT_NE(mean.model_hash(), hash(untouched));
  EXPECT_EQ(mean.model_hash(), ensemble.model_hash()) << "the same models, measured otherwise";
  EXPECT_EQ(mean.history().front().accuracy, mean.examiner().evaluate_each().accuracy());
  EXPECT_EQ(ensemble.history().front().accuracy, mean.examiner().evaluate_ensemble().accuracy());
  EXPECT_NE(mean.history().front().loss, ensemble.history().front().loss);
}

TEST(RHFLRun, CountsPayloadsAndParticipations) {
  Session session(experiment({"rounds=2"}), only_rhfl(), on_cpu(), nullptr);
  play_to_end(session);
  const Traffic& traffic = session.engine().traffic();
  const std::int64_t outputs = 4 * 20 * 4;  // float32, public images, classes
  const std::int64_t batches = 2;
  EXPECT_EQ(traffic.bytes_up, 4 * (8 + 2 * (outputs + 8)));
  EXPECT_EQ(traffic.bytes_down, 4 * 2 * (4 * batches + 8 * batches + outputs + 4));
  EXPECT_EQ(traffic.participations, 4 * (1 + 2)) << "pretraining and two rounds";
  // 20 samples in batches of 16: two steps an epoch.
  EXPECT_EQ(traffic.client_steps, 4 * (2 * 2 + 2 * (batches + 2)));
}

TEST(RHFLRun, WritesTheClientsModelsDown) {
  const TestFolder folder;
  RunObserver nobody;
  const RunOutcome outcome =
      start_run(experiment({"rounds=1"}), only_rhfl(), on_cpu(), folder / "run", nullptr, nobody);
  EXPECT_EQ(outcome.rounds_done, 1);
  const TensorFile file = load_tensors(folder / "run" / "model.safetensors");
  EXPECT_TRUE(file.tensors.contains("0/fc3.weight") || file.tensors.contains("0/fc.weight"));
  EXPECT_EQ(read_history(folder / "run").front().hash,
            outcome.summary.at("model_hash").get<std::string>());
  EXPECT_TRUE(outcome.summary.at("scores").contains("confidence"));
}

TEST(RHFLRun, LearnsOnItsOwnAndFromTheOthers) {
  Session session(
      experiment({"rounds=5", "data.samples=220", "data.test_samples=60", "data.difficulty=0.1",
                  "method.networks=[\"lenet5\"]", "method.pretrain_epochs=5", "method.lr=0.003"}),
      only_rhfl(), on_cpu(), nullptr);
  play_to_end(session);
  EXPECT_GT(*session.history().back().accuracy, 0.4) << "four classes, half of the clients noisy";
}

// Adam's first steps have the size of lr whatever the gradient's, so weights are not compared.
TEST(RHFLRun, NeedsPublicImages) {
  EXPECT_NE(error_text([] {
              const Session session(experiment({"public.source=\"none\""}), only_rhfl(), on_cpu(),
                                    nullptr);
            }).find("[public]"),
            std::string::npos);
}

}  // namespace winnow::rhfl::rhfl_run_test

#include "winnow/audit/out_of_sample.h"

#include <gtest/gtest.h>

#include <set>

#include "run/small_run.h"

namespace winnow::out_of_sample_test {

Judgement judge(std::int64_t clients, std::int64_t repetitions) {
  const Experiment experiment =
      parse_experiment(small_tree({"rounds=1", "federation.clients=" + std::to_string(clients)}),
                       builtin_registry());
  const World world = make_world(experiment, builtin_registry());
  return judge_out_of_sample(experiment, world, samples_of(world.clients), world.data.train.images,
                             {.folds = 2, .repetitions = repetitions}, builtin_registry(),
                             on_cpu(1), nullptr, [](std::int64_t, std::int64_t, double) {});
}

// A client's confusion is compared with those of its own model's other clients: with more models
// than one there is none to compare with.
TEST(OutOfSample, RepetitionsLeaveNobodyWithAFoldOfItsOwn) {
  const Judgement once = judge(4, 1);
  EXPECT_EQ(std::set(once.fold_of.begin(), once.fold_of.end()), (std::set<std::int64_t>{0, 1}));
  EXPECT_TRUE(once.p_of.empty()) << "there is no need of a copy";
  EXPECT_EQ(once.rows_by(0).data(), once.p.data());
  const Judgement twice = judge(4, 2);
  EXPECT_EQ(std::set(twice.fold_of.begin(), twice.fold_of.end()), (std::set<std::int64_t>{-1}));
  EXPECT_EQ(twice.trainings, 4);
  ASSERT_EQ(twice.p_of.size(), 2U);
  EXPECT_NE(twice.p_of[0], twice.p_of[1]);
  for (std::size_t i = 0; i < twice.p.size(); ++i) {
    ASSERT_NEAR(twice.p[i], 0.5 * (twice.rows_by(0)[i] + twice.rows_by(1)[i]), 1e-6);
  }
}

TEST(OutOfSample, WithOneOwnerFoldsAreOverSamplesAndNobodyHasOne) {
  const Judgement judgement = judge(1, 1);
  EXPECT_EQ(judgement.fold_of, (std::vector<std::int64_t>{-1}));
  EXPECT_EQ(std::set(judgement.model_of[0].begin(), judgement.model_of[0].end()),
            (std::set<std::int64_t>{0, 1}));
}

}  // namespace winnow::out_of_sample_test

// Attackers in a whole run: who they are, what they do to it, and that it stays the same run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/small_run.h"
#include "winnow/run/summary.h"

namespace winnow::attack_run_test {

using testing::HasSubstr;

Experiment with_attack(const std::string& attack, const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets{"federation.clients=6", "federation.fraction=1.0",
                                "data.samples=180",
                                "noise=[{name=\"attack\", clients=[1, 4]" + attack + "}]"};
  sets.insert(sets.end(), more.begin(), more.end());
  return small(sets);
}

std::vector<std::string> played(const Experiment& experiment, const Runtime& runtime) {
  Session session(experiment, methods(), runtime, nullptr);
  while (session.rounds_done() < session.rounds()) {
    session.play();
  }
  return hashes(session.history());
}

class EveryAttack : public testing::TestWithParam<std::string> {};

TEST_P(EveryAttack, ChangesTheRunAndGivesTheSameBitsEverywhere) {
  const Experiment experiment = with_attack(", kind=\"" + GetParam() + "\"");
  const auto one = played(experiment, on_cpu(1));
  EXPECT_NE(one, played(with_attack("", {"noise=[]"}), on_cpu(1))) << "nobody attacks";
  EXPECT_EQ(one, played(experiment, on_cpu(3)));
  Runtime wired = on_cpu();
  wired.wire = true;
  EXPECT_EQ(one, played(experiment, wired));
}

TEST_P(EveryAttack, GoesOnFromACheckpoint) {
  const Experiment experiment =
      with_attack(", kind=\"" + GetParam() + "\"", {"federation.dropout=0.2"});
  Session calm(experiment, methods(), on_cpu(), nullptr);
  Session stopped(experiment, methods(), on_cpu(), nullptr);
  calm.play();
  stopped.play();
  Session resumed(experiment, methods(), on_cpu(), nullptr);
  resumed.restore(stopped.checkpoint());
  while (calm.rounds_done() < calm.rounds()) {
    calm.play();
    resumed.play();
  }
  EXPECT_EQ(hashes(resumed.history()), hashes(calm.history()));
}

INSTANTIATE_TEST_SUITE_P(All, EveryAttack,
                         testing::Values("sign_flip", "alie", "inner_product", "random",
                                         "free_rider"),
                         [](const auto& info) { return info.param; });

TEST(AttackRun, CountsAttackersAsNoisyClients) {
  Session session(with_attack(", kind=\"free_rider\""), methods(), on_cpu(), nullptr);
  EXPECT_THAT(session.world().ledger.noisy_clients(), testing::ElementsAre(1, 4));
  EXPECT_EQ(make_summary(session).at("noise").at("noisy_clients"), 2);
}

TEST(AttackRun, NeedsClientsOfItsOwn) {
  EXPECT_THAT(error_text([] {
                Session session(with_attack(", kind=\"random\"", {"federation.centralised=true"}),
                                methods(), on_cpu(), nullptr);
              }),
              HasSubstr("noise.0: an attack needs clients of its own"));
}

}  // namespace winnow::attack_run_test

#include "winnow/experiment/changed_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "winnow/experiment/experiment.h"
#include "winnow/experiment/toml.h"

namespace winnow::changed_settings_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

std::vector<std::string> changed_in(const std::string& toml) {
  const Registry registry = builtin_registry();
  return changed_settings(parse_experiment(parse_toml(toml, "test"), registry).resolved(),
                          registry);
}

TEST(ChangedSettings, AreWhatTheFileSaysAndTheNamesThatItChooses) {
  EXPECT_THAT(changed_in(""),
              ElementsAre("data.name", "federation.partition.name", "model.name", "method.name"));
  EXPECT_THAT(changed_in(R"(
rounds = 7
eval_every = 1
[federation]
partition = { name = "dirichlet_class", alpha = 3.5 }
[[noise]]
name = "fedcorr_labels"
rho = 0.125
[train]
lr = 0.77
[method]
name = "fedprox"
mu = 0.03125
)"),
              ElementsAre("rounds", "data.name", "federation.partition.name",
                          "federation.partition.alpha", "noise.0.name", "noise.0.rho", "model.name",
                          "train.lr", "method.name", "method.mu"));
}

TEST(ChangedSettings, ABaseMethodHasDefaultsOfItsOwn) {
  const std::string clipfl = "[method]\nname = \"clipfl\"\n";
  EXPECT_THAT(changed_in(clipfl), Not(Contains("method.base.name")));
  const std::vector<std::string> named = changed_in(clipfl + "base = \"fedprox\"");
  EXPECT_THAT(named, Contains("method.base.name"));
  EXPECT_THAT(named, Not(Contains("method.base.mu")));
  EXPECT_THAT(changed_in(clipfl + "base = { name = \"fedprox\", mu = 0.03125 }"),
              Contains("method.base.mu"));
}

TEST(ChangedSettings, AProjectionThatTheMethodWantsIsNoChange) {
  EXPECT_THAT(changed_in("method = \"moon\""), Not(Contains("model.projection")));
  EXPECT_THAT(changed_in("[method]\nname = \"clipfl\"\nbase = \"moon\""),
              Not(Contains("model.projection")));
  EXPECT_THAT(changed_in("method = \"moon\"\n[model]\nprojection = 7"),
              Contains("model.projection"));
}

TEST(ChangedSettings, WhatIsNotKnownHereIsShown) {
  const Registry registry = builtin_registry();
  const Json tree = parse_toml(
      "future = 1\n[method]\nname = \"mine\"\nstrength = 2\n[[noise]]\nname = \"mist\"\nx = 1",
      "test");
  EXPECT_THAT(changed_settings(tree, registry),
              ElementsAre("future", "method.name", "method.strength", "noise.0.name", "noise.0.x"));
}

TEST(ChangedSettings, ATreeOfOtherTypesIsNoFault) {
  const Registry registry = builtin_registry();
  const Json odd{{"noise", 3},
                 {"method", "fedavg"},
                 {"federation", {{"partition", {{"name", 1}}}}},
                 {"data", Json::array({1})}};
  EXPECT_THAT(changed_settings(odd, registry),
              ElementsAre("noise", "method", "federation.partition.name", "data"));
  Json report{{"runs", {{{"id", "waits"}}, {{"experiment", odd}}}}};
  add_changed_settings(report, registry);
  EXPECT_FALSE(report.at("runs").at(0).contains("changed"));
  EXPECT_EQ(report.at("runs").at(1).at("changed").size(), 4U);
}

}  // namespace winnow::changed_settings_test

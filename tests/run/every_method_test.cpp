// What every method must hold, whatever it does: the same bits for any number of lanes, and after a
// checkpoint at any round.
#include <gtest/gtest.h>

#include <optional>

#include "run/method_schedules.h"
#include "run/small_run.h"
#include "winnow/method/base_choice.h"
#include "winnow/run/checkpoint.h"
#include "winnow/run/summary.h"

namespace winnow::every_method_test {

void play_to_end(Session& session) {
  while (session.rounds_done() < session.rounds()) {
    session.play();
  }
}

// What a run ends with, apart from its times and how it was executed.
Json end_of(const Session& session) {
  Json summary = make_summary(session);
  for (const char* key : {"train_seconds", "wall_seconds", "lanes"}) {
    summary.erase(key);
  }
  return summary;
}

class EveryMethod : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryMethod, EndsInTheSameBitsForOneTwoAndFiveLanes) {
  const Experiment experiment = experiment_with(GetParam());
  Session one(experiment, methods(), on_cpu(1), nullptr);
  play_to_end(one);
  for (const std::int64_t lanes : {2, 5}) {
    Session more(experiment, methods(), on_cpu(lanes), nullptr);
    play_to_end(more);
    EXPECT_EQ(hashes(more.history()), hashes(one.history())) << lanes << " lanes";
    EXPECT_EQ(end_of(more), end_of(one)) << lanes << " lanes";
  }
}

// Nothing but bytes crosses: what a model, a number or a NaN is on one side it is on the other.
TEST_P(EveryMethod, EndsInTheSameBitsWhenMessagesCrossAsBytes) {
  const Experiment experiment = experiment_with(GetParam());
  Session direct(experiment, methods(), on_cpu(), nullptr);
  play_to_end(direct);
  Runtime runtime = on_cpu();
  runtime.wire = true;
  Session wired(experiment, methods(), runtime, nullptr);
  play_to_end(wired);
  EXPECT_EQ(hashes(wired.history()), hashes(direct.history()));
  EXPECT_EQ(end_of(wired), end_of(direct));
}

TEST_P(EveryMethod, ContinuesFromACheckpointOfAnyRound) {
  const TestFolder folder;
  const Experiment experiment = experiment_with(GetParam());
  Session calm(experiment, methods(), on_cpu(), nullptr);
  play_to_end(calm);
  Session running(experiment, methods(), on_cpu(), nullptr);
  for (std::int64_t round = 1; round < calm.rounds(); ++round) {
    running.play();
    const std::filesystem::path place = folder / std::to_string(round);
    Session resumed(experiment, methods(), on_cpu(), nullptr);
    resumed.restore(through_files(place, running));
    play_to_end(resumed);
    EXPECT_EQ(hashes(resumed.history()), hashes(calm.history())) << "resumed after " << round;
    EXPECT_EQ(end_of(resumed), end_of(calm)) << "resumed after " << round;
  }
}

// Three of ten tasks are lost, so that in these small rounds everybody is away now and then.
TEST_P(EveryMethod, EndsInTheSameBitsWhenTheSameClientsDropOut) {
  const Experiment experiment = experiment_with(GetParam(), {"federation.dropout=0.3"});
  Session one(experiment, methods(), on_cpu(1), nullptr);
  Session two(experiment, methods(), on_cpu(2), nullptr);
  std::optional<Checkpoint> middle;
  std::size_t absent = 0;
  while (one.rounds_done() < one.rounds()) {
    const Session::Played played = one.play();
    absent += played.notes.value("absent", Json::array()).size();
    EXPECT_EQ(two.play().notes.value("absent", Json()), played.notes.value("absent", Json()));
    if (one.rounds_done() == (one.rounds() + 1) / 2) {
      middle = one.checkpoint();
    }
  }
  EXPECT_GT(absent, 0U);
  EXPECT_EQ(hashes(two.history()), hashes(one.history())) << "2 lanes";
  EXPECT_EQ(end_of(two), end_of(one));
  Session resumed(experiment, methods(), on_cpu(), nullptr);
  resumed.restore(*middle);
  play_to_end(resumed);
  EXPECT_EQ(hashes(resumed.history()), hashes(one.history())) << "resumed";
  EXPECT_EQ(end_of(resumed), end_of(one));
}

TEST_P(EveryMethod, PlaysOnWhenHardlyAnybodyAnswers) {
  Session session(experiment_with(GetParam(), {"federation.dropout=0.9"}), methods(), on_cpu(),
                  nullptr);
  EXPECT_NO_THROW(play_to_end(session));
}

TEST_P(EveryMethod, AnInterruptedRoundLeavesNoTrace) {
  const Experiment experiment = experiment_with(GetParam());
  Session calm(experiment, methods(), on_cpu(), nullptr);
  play_to_end(calm);
  std::atomic<bool> stop = false;
  Session session(experiment, methods(), on_cpu(), &stop);
  while (session.rounds_done() < session.rounds()) {
    stop = true;
    EXPECT_THROW(session.play(), Interrupted);
    stop = false;
    session.play();
  }
  EXPECT_EQ(hashes(session.history()), hashes(calm.history()));
  EXPECT_EQ(end_of(session), end_of(calm));
}

// A wrapper accepts every base it offers, and the pair survives a checkpoint between any two
// rounds.
class EveryBase : public ::testing::TestWithParam<std::string> {};

Json table_of(const std::string& base) {
  const std::string own = "method.";
  Json table{{"name", base}};
  for (const auto& [key, value] : builtin_methods().find(base).smoke.items()) {
    if (key.starts_with(own)) {
      table[key.substr(own.size())] = value;
    }
  }
  return table;
}

void expect_wrapped(const std::string& wrapper) {
  Json tree = small_tree({"federation.clients=6", "federation.fraction=1.0", "data.samples=180",
                          "validation.source=\"split\"", "method.name=\"" + wrapper + "\""});
  set_short_schedule(tree, wrapper);
  tree["method"]["base"] = table_of(EveryBase::GetParam());
  const Experiment experiment = parse_experiment(tree, methods());
  Session calm(experiment, methods(), on_cpu(), nullptr);
  play_to_end(calm);
  Session stopped(experiment, methods(), on_cpu(), nullptr);
  while (stopped.rounds_done() < stopped.rounds() - 1) {
    stopped.play();
  }
  Session resumed(experiment, methods(), on_cpu(), nullptr);
  resumed.restore(stopped.checkpoint());
  play_to_end(resumed);
  EXPECT_EQ(hashes(resumed.history()), hashes(calm.history())) << wrapper;
}

TEST_P(EveryBase, CanBeWrapped) {
  expect_wrapped("clipfl");
  expect_wrapped("fedcorr");
  expect_wrapped("oracle");
  const std::unique_ptr<Method> base = builtin_methods().find(GetParam()).make();
  if (!dynamic_cast<const BaseMethod&>(*base).weighs()) {
    EXPECT_THROW(expect_wrapped("fedns"), Error) << "it weights all models equally";
  } else {
    expect_wrapped("fedns");
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryBase, ::testing::ValuesIn(BaseChoice().names()),
                         [](const auto& info) { return info.param; });

INSTANTIATE_TEST_SUITE_P(All, EveryMethod, ::testing::ValuesIn(builtin_methods().names()),
                         [](const auto& info) { return info.param; });

}  // namespace winnow::every_method_test

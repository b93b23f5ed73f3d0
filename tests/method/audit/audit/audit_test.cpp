#include "winnow/method/audit/audit/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "testing/support.h"
#include "winnow/method/audit/audit/letters.h"
#include "winnow/method/audit/audit/rows.h"

namespace winnow::audit::audit_method_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The server side over clients that give back the model they are sent, and fixed sums.
struct Federation {
  explicit Federation(std::int64_t clients, std::int64_t rounds = 2, const Json& parameters = {})
      : setting{.seed = 9,
                .rounds = rounds,
                .clients = clients,
                .fraction = 1.0,
                .classes = 2,
                .layout = start.layout},
        fleet(std::vector<std::int64_t>(static_cast<std::size_t>(clients), 40),
              [this](std::int64_t client, const Message& task) { return answer(client, task); }) {
    Params params;
    method.declare(params);
    if (!parameters.is_null()) {
      params.read(parameters, "method");
    }
    method.check(setting);
  }

  Message answer(std::int64_t client, const Message& task) {
    kinds[task.kind()].push_back(client);
    if (task.kind() == "train") {
      trained[task.get<std::uint32_t>("fold")].insert(client);
      State model = task.get<State>("model").clone();
      model.flat.add_(0.01 * static_cast<double>(client + 1));
      return Message("train_done").set("model", model).set("samples", std::uint32_t{40});
    }
    if (task.kind() == "sums") {
      FirstSums sums(2);
      sums.samples = 40;
      sums.held =
          client == liar ? std::vector<std::int64_t>{39, 39} : std::vector<std::int64_t>{20, 20};
      sums.labels = ThresholdSums({20, 20}, std::vector<double>{16, 16});
      for (int i = 0; i < 40; ++i) {
        for (auto& histogram : sums.stats) {
          histogram.add(0.5);
        }
        for (auto& histogram : sums.scores) {
          histogram.add(0.5);
        }
        sums.gradient.add(0.5);
        sums.distance.add(0.5);
      }
      judged_by[client] = task.get<State>("model").flat;
      return write_first(sums);
    }
    if (task.kind() == "counts") {
      SecondSums sums(2);
      // Client 1 has a label in three wrong.
      sums.counts = client == 1 ? JointCounts(2, {12, 6, 6, 12}) : JointCounts(2, {18, 0, 0, 18});
      for (int i = 0; i < 40; ++i) {
        sums.distance.add(0.5);
      }
      return write_second(sums);
    }
    outcomes[client] = read_outcome(task);
    return Message("close_done")
        .set("label_issues", std::uint32_t{client == 1 ? 12U : 0U})
        .set("input_issues", std::uint32_t{0});
  }

  void play_all() {
    for (std::int64_t round = 0; round < method.rounds(setting); ++round) {
      notes = Json::object();
      Server server{setting, fleet, global, notes, {}, [this](std::uint64_t seed) {
                      State fresh = start.clone();
                      fresh.flat.fill_(static_cast<double>(seed % 1000) / 1000.0);
                      return fresh;
                    }};
      method.play(round, server);
    }
  }

  State start = state_of({0.1F, 0.2F, 0.3F});
  Setting setting;
  std::map<std::string, std::vector<std::int64_t>> kinds;
  std::map<std::uint32_t, std::set<std::int64_t>> trained;  // by fold
  std::map<std::int64_t, at::Tensor> judged_by;
  std::map<std::int64_t, Outcome> outcomes;
  std::int64_t liar = -1;
  FakeFleet fleet;
  State global = start;
  Json notes;
  AuditMethod method;
};

TEST(AuditMethod, NobodyIsJudgedByAModelThatItTrained) {
  Federation federation(6, 2, {{"folds", 3}});
  federation.play_all();
  EXPECT_EQ(federation.method.rounds(federation.setting), 7);
  EXPECT_EQ(federation.method.schedule(federation.setting), "folds 3 x rounds 2 + 1");
  EXPECT_EQ(federation.method.keeps_labels_as(5, federation.setting), "");
  EXPECT_EQ(federation.method.keeps_labels_as(6, federation.setting), "audit");
  const auto folds = deal_folds({0, 1, 2, 3, 4, 5}, 3, 9, 0);
  for (const auto& [client, fold] : folds) {
    for (std::uint32_t each = 0; each < 3; ++each) {
      EXPECT_EQ(federation.trained[each].contains(client), each != fold) << client;
    }
  }
  // The clients of a fold share a model, those of different folds do not.
  for (const auto& [one, fold] : folds) {
    for (const auto& [other, its] : folds) {
      EXPECT_EQ(at::equal(federation.judged_by[one], federation.judged_by[other]), fold == its);
    }
  }
}

TEST(AuditMethod, FindsTheNoisyClientAndTellsEachOnlyAboutItself) {
  Federation federation(6, 1, {{"folds", 2}});
  federation.play_all();
  const Findings findings = federation.method.findings();
  EXPECT_NEAR(findings.noise_levels.at(1), 1.0 / 3, 1e-9);
  EXPECT_EQ(findings.noise_levels.at(0), 0.0);
  EXPECT_EQ(findings.scores.at("label_issues").at(1), 12);
  EXPECT_EQ(findings.scores.at("judged").at(4), 40);
  EXPECT_GT(findings.scores.at("excess_rate").at(1), 0.2);
  EXPECT_NEAR(federation.outcomes.at(1).noise_rate, 1.0 / 3, 1e-9);
  EXPECT_EQ(federation.outcomes.at(2).noise_rate, 0.0);
  EXPECT_NEAR(federation.notes["noise_rate"].get<double>(), 1.0 / 18, 1e-9);
  EXPECT_EQ(federation.notes["verdicts"].size(), 6U);
  EXPECT_EQ(federation.kinds["close"].size(), 6U);
}

TEST(AuditMethod, AClientThatContradictsItselfIsRejectedAndCountsNowhere) {
  Federation federation(6, 1, {{"folds", 2}});
  federation.liar = 3;
  federation.play_all();
  EXPECT_THAT(federation.notes["rejected"], ElementsAre(3));
  EXPECT_FALSE(federation.method.findings().noise_levels.contains(3));
  EXPECT_EQ(federation.method.findings().noise_levels.size(), 5U);
}

TEST(AuditMethod, ItsStateComesBackAndForgedStateDoesNot) {
  Federation federation(4, 1, {{"folds", 2}});
  federation.play_all();
  Archive saved;
  federation.method.save(saved);
  saved.bounds = {.samples = {40, 40, 40, 40}, .classes = 2, .layout = federation.start.layout};
  Federation other(4, 1, {{"folds", 2}});
  other.method.load(saved);
  EXPECT_EQ(other.method.findings().scores, federation.method.findings().scores);
  Archive forged = saved;
  forged.values["folds"]["2"] = 2;
  EXPECT_THAT(error_text([&] { other.method.load(forged); }), HasSubstr("folds"));
  forged = saved;
  forged.values.erase("p_hostile");
  EXPECT_THAT(error_text([&] { other.method.load(forged); }),
              HasSubstr("p_hostile: not of the clients that were judged"));
}

TEST(AuditMethod, RefusesFewerClientsThanFoldsAndTooManyClasses) {
  EXPECT_THAT(error_text([] { Federation(4); }),
              HasSubstr("method.folds = 5: expected at most as many as there are clients, 4"));
  AuditMethod method;
  EXPECT_THAT(
      error_text([&] { method.check({.clients = 5, .classes = 1001}); }),
      HasSubstr("method audit: 1001 classes are more than 1000, the most whose pairs it can "
                "compare"));
}

TEST(AuditMemory, RowsComeBackAndForgedOnesDoNot) {
  std::vector<SampleFinding> found(3);
  for (SampleFinding& finding : found) {
    finding.predicted = 1;
  }
  found[1].is_label_issue = true;
  found[1].suggested = 1;  // what it is told anew from the issue and the prediction
  found[1].label_score = 0.125;
  found[2].near_duplicate_set = 0;
  Archive archive;
  archive.put(kRowsName, rows_of(found));
  EXPECT_EQ(read_kept(archive, 3, 2).found, found);
  EXPECT_FALSE(read_kept(archive, 3, 2).outcome);
  EXPECT_THAT(error_text([&] { read_kept(archive, 4, 2); }), HasSubstr(kRowsName));
  found[0].predicted = 2;
  archive.put(kRowsName, rows_of(found));
  EXPECT_THAT(error_text([&] { read_kept(archive, 3, 2); }),
              HasSubstr("findings: 2 is no value of a finding"));
  Archive told;
  told.values[kOutcomeName] = outcome_json({.bars = {}, .noise_rate = 0.25});
  EXPECT_EQ(read_kept(told, 3, 2).outcome->noise_rate, 0.25);
  told.values[kOutcomeName]["kind"] = 7;
  EXPECT_THAT(error_text([&] { read_kept(told, 3, 2); }), HasSubstr("kind = 7"));
}

}  // namespace winnow::audit::audit_method_test

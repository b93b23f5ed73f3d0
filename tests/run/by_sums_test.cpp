// An engine that forms sums has methods ask for sums where they are enough, with the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/method_schedules.h"
#include "run/small_run.h"
#include "testing/errors.h"
#include "winnow/engine/crew.h"
#include "winnow/engine/local_engine.h"
#include "winnow/engine/local_examiner.h"
#include "winnow/engine/members.h"
#include "winnow/run/workplace.h"

namespace winnow::by_sums_test {

using ::testing::HasSubstr;

// The local engine, which says that it forms sums and counts how often it had to.
class SummingEngine final : public LocalEngine {
 public:
  SummingEngine(Members& members, Crew& crew, std::int64_t& asked)
      : LocalEngine(members, crew), asked_(asked) {}
  bool forms_sums() const override { return true; }
  Sums ask_for_sums(const std::vector<Order>& orders, const std::vector<FieldRule>& rules,
                    SumForm form, const Hear& hear) override {
    ++asked_;
    return LocalEngine::ask_for_sums(orders, rules, form, hear);
  }

 private:
  std::int64_t& asked_;
};

Runtime summing(std::int64_t& asked) {
  Runtime runtime = on_cpu();
  runtime.engine = "summing";
  runtime.engines.add(
      {"summing", "", nullptr,
       [&asked](const Experiment& experiment, const Registry& registry, const Runtime& its_runtime,
                const std::atomic<bool>* stop) {
         auto place = std::make_unique<Workplace>(experiment, registry, its_runtime, stop);
         auto engine = std::make_unique<SummingEngine>(place->members(), place->crew(), asked);
         engine->serve(place->client_side(), place->exchanges());
         Examiner* examiner = &place->examiner();
         return Hosted{std::move(place), std::move(engine), examiner};
       }});
  return runtime;
}

class MethodBySums : public ::testing::TestWithParam<std::string> {};

TEST_P(MethodBySums, EndsInTheSameBitsWhereSumsAreFormedForIt) {
  const Experiment experiment = experiment_with(GetParam(), {"federation.dropout=0.2"});
  std::int64_t asked = 0;
  Session plain(experiment, methods(), on_cpu(), nullptr);
  Session sums(experiment, methods(), summing(asked), nullptr);
  while (plain.rounds_done() < plain.rounds()) {
    const Session::Played expected = plain.play();
    const Session::Played played = sums.play();
    ASSERT_EQ(played.record.hash, expected.record.hash);
    ASSERT_EQ(played.notes, expected.notes);
    ASSERT_EQ(played.quality, expected.quality);
    ASSERT_EQ(played.record.traffic.bytes_up, expected.record.traffic.bytes_up);
  }
  if (builtin_registry().make(GetParam())->server_needs().plays_sums) {
    EXPECT_GT(asked, 0) << "it says that sums are enough";
  }
}

INSTANTIATE_TEST_SUITE_P(All, MethodBySums, ::testing::ValuesIn(builtin_methods().names()),
                         [](const auto& info) { return info.param; });

TEST(BySums, ModelsThatAreWeighedEqually) {
  for (const char* set : {"method.weighting=\"equal\""}) {
    std::int64_t asked = 0;
    const Experiment experiment =
        small({set, "model.name=\"cnn4\"", "federation.fraction=1.0", "rounds=2"});
    Session plain(experiment, methods(), on_cpu(), nullptr);
    Session sums(experiment, methods(), summing(asked), nullptr);
    while (plain.rounds_done() < plain.rounds()) {
      plain.play();
      sums.play();
    }
    EXPECT_EQ(hashes(sums.history()), hashes(plain.history()));
    EXPECT_EQ(asked, 2);
  }
}

// A class that derives from a method of sums and looks at single models in add().
class Looking final : public FedAvg {
 public:
  explicit Looking(std::int64_t& seen) : seen_(seen) {}
  void add(Round& round, const Upload& upload) override {
    ++seen_;
    Upload weighed = upload;
    weighed.factor = upload.client == 0 ? 1.0 : 3.0;
    FedAvg::add(round, weighed);
  }

 private:
  std::int64_t& seen_;
};

TEST(BySums, NobodyPassesOverTheAddOfADerivedMethod) {
  std::int64_t seen = 0;
  Registry registry = methods();
  registry.methods.add(
      {"looking", "test", "", [&seen] { return std::make_unique<Looking>(seen); }});
  const auto experiment = [&](std::vector<std::string> sets) {
    sets.insert(sets.end(), {"method.name=\"looking\"", "federation.fraction=1.0", "rounds=2"});
    return parse_experiment(small_tree(sets), registry);
  };
  std::int64_t asked = 0;
  Session plain(experiment({}), registry, on_cpu(), nullptr);
  Session sums(experiment({}), registry, summing(asked), nullptr);
  for (int round = 0; round < 2; ++round) {
    plain.play();
    sums.play();
  }
  EXPECT_EQ(seen, 16);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(hashes(sums.history()), hashes(plain.history()));
  EXPECT_THAT(
      error_text([&] { experiment({"federation.sums=\"fixed\""}); }),
      HasSubstr("the server of looking needs individual models: it is derived from a method "
                "of sums and does not say itself that sums are enough"));
}

}  // namespace winnow::by_sums_test

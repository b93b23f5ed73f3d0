#include "winnow/run/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/small_run.h"
#include "winnow/run/runner.h"
#include "winnow/sweep/find_runs.h"
#include "winnow/sweep/report_data.h"

namespace winnow::format_test {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

// Methods among which "growing" is FedAvg, as an earlier version had it, or with an option that
// came later.
Registry growing(bool later, const std::function<void()>& hook = nullptr) {
  class Growing final : public FedAvg {
   public:
    Growing(bool later, std::function<void()> hook) : later_(later), hook_(std::move(hook)) {}
    void declare(Params& params) override {
      FedAvg::declare(params);
      if (later_) {
        params.add("boost", boost_, "an option that came later").range(0, 10);
      }
    }
    void play(std::int64_t round, Server& server) override {
      if (hook_) {
        hook_();
      }
      FedAvg::play(round, server);
    }

   private:
    bool later_;
    std::function<void()> hook_;
    double boost_ = 1.0;
  };
  Registry registry = builtin_registry();
  registry.methods.add({"growing", "test", "a method that grows",
                        [=] { return std::make_unique<Growing>(later, hook); }});
  return registry;
}

Json growing_tree(const std::vector<std::string>& sets = {}) {
  std::vector<std::string> all{"method.name=growing", "checkpoint_every=1"};
  all.insert(all.end(), sets.begin(), sets.end());
  return small_tree(all);
}

RunOutcome play(const Json& tree, const fs::path& directory, const Registry& registry,
                const std::atomic<bool>* stop = nullptr) {
  RunObserver silence;
  return start_run(parse_experiment(tree, registry), registry, on_cpu(), directory, stop, silence);
}

// A run of the earlier version, stopped after its second round.
void stop_early(const Json& tree, const fs::path& directory) {
  std::atomic<bool> stop{false};
  int rounds = 0;
  const Registry before = growing(false, [&] { stop = ++rounds == 3; });
  ASSERT_TRUE(play(tree, directory, before, &stop).interrupted);
}

RunOutcome go_on(const fs::path& directory, const Registry& registry) {
  RunObserver silence;
  return resume_run(directory, registry, on_cpu(), nullptr, silence);
}

TEST(Format, ARunGoesOnAfterItsMethodGotAnOption) {
  const TestFolder folder;
  stop_early(growing_tree(), folder / "run");
  const RunOutcome outcome = go_on(folder / "run", growing(true));
  EXPECT_EQ(outcome.rounds_done, 4);
  play(growing_tree(), folder / "whole", growing(true));
  EXPECT_EQ(hashes(read_history(folder / "run")), hashes(read_history(folder / "whole")));
}

// Its checkpoints stay those of its own file, so that the next version can go on, too.
TEST(Format, ACheckpointOfARunThatWentOnIsStillReadByTheEarlierVersion) {
  const TestFolder folder;
  stop_early(growing_tree(), folder / "run");
  std::atomic<bool> stop{false};
  const Registry later = growing(true, [&] { stop = true; });
  RunObserver silence;
  ASSERT_TRUE(resume_run(folder / "run", later, on_cpu(), &stop, silence).interrupted);
  EXPECT_EQ(go_on(folder / "run", growing(false)).rounds_done, 4);
}

TEST(Format, ARunWhoseFileLostAKeyOrGotOneIsRefused) {
  const TestFolder folder;
  stop_early(growing_tree({"train.lr=0.03"}), folder / "run");
  const fs::path file = folder / "run/experiment.toml";
  const Json before = read_toml(file);
  Json without = before;
  without["train"].erase("lr");
  Json with = before;
  with["method"]["boost"] = 2.0;
  for (const Json& changed : {without, with}) {
    write_file_whole(file, write_toml(changed));
    EXPECT_THAT(error_text([&] { go_on(folder / "run", growing(true)); }),
                HasSubstr("was made under another experiment"));
  }
}

// A checkpoint of an earlier version has the hash of the whole experiment.
TEST(Format, TheHashOfARunsOwnFileIsThatOfItsExperiment) {
  const Registry registry = builtin_registry();
  for (const MethodInfo& info : registry.methods) {
    const Json tree =
        small_tree({"method.name=" + info.name, "validation.source=split", "public.source=split"});
    const Experiment experiment = parse_experiment(tree, registry);
    const Json file = parse_toml(write_toml(experiment.resolved()), "file");
    EXPECT_EQ(experiment.hash_of(file), experiment.hash()) << info.name;
  }
}

TEST(Format, TablesTakeAMissingKeyForItsDefault) {
  const TestFolder folder;
  const auto begin = [&](const std::string& name, const Json& tree, bool later) {
    fs::create_directories(folder / name);
    write_file_whole(folder / name / "experiment.toml",
                     write_toml(parse_experiment(tree, growing(later)).resolved()));
    return (folder / name).string();
  };
  const std::string early = begin("early", growing_tree({"seed=1"}), false);
  const std::string late = begin("late", growing_tree({"seed=2"}), true);
  const std::string other = begin("other", growing_tree({"seed=3", "method.boost=2"}), true);
  const std::vector<RunPlace> found = find_runs({early, late, other}, growing(true));
  EXPECT_EQ(found[0].row, found[1].row);
  EXPECT_EQ(found[0].row, "growing, boost = 1.0");
  EXPECT_EQ(found[2].row, "growing, boost = 2.0");
  // A program without the method knows the files alone.
  EXPECT_EQ(find_runs({early, late})[0].row, "growing, boost = none");
}

// The lines of errors about a directory of a newer format, for everything that reads one.
class Newer : public ::testing::Test {
 protected:
  void SetUp() override {
    RunObserver silence;
    start_run(small(), methods(), on_cpu(), run_, nullptr, silence);
  }

  void expect_refusal(const std::function<void()>& read, const std::string& file) const {
    EXPECT_EQ(error_text(read), (run_ / file).string() +
                                    " was made by a newer Winnow: format 3, this program reads up "
                                    "to 2 | use version 9.9, which made it");
  }

  TestFolder folder_;
  fs::path run_ = folder_ / "run";
};

TEST_F(Newer, ALogIsRefusedByName) {
  std::string log = read_file(run_ / "events.jsonl");
  Json first = Json::parse(log.substr(0, log.find('\n')));
  EXPECT_EQ(first.at("format"), kRunFormat);
  first["format"] = 3;
  first["version"] = "9.9";
  log.replace(0, log.find('\n'), first.dump());
  write_file_whole(run_ / "events.jsonl", log);
  const std::string events = "events.jsonl";
  expect_refusal([&] { read_history(run_); }, events);
  expect_refusal([&] { find_runs({run_.string()}); }, events);
  expect_refusal([&] { ReportReader({run_.string()}).read(); }, events);
  expect_refusal([&] { read_run_experiment(run_, methods()); }, events);
  fs::remove(run_ / "summary.json");
  expect_refusal([&] { go_on(run_, methods()); }, events);
}

TEST_F(Newer, ASummaryIsRefusedByName) {
  Json summary = read_summary(run_);
  EXPECT_EQ(summary.at("format"), kRunFormat);
  summary["format"] = 3;
  summary["version"] = "9.9";
  write_file_whole(run_ / "summary.json", summary.dump());
  expect_refusal([&] { read_summary(run_); }, "summary.json");
  expect_refusal([&] { find_runs({run_.string()}); }, "summary.json");
  expect_refusal([&] { go_on(run_, methods()); }, "summary.json");
}

TEST(Format, ANumberThatIsNoneIsDamage) {
  for (const char* text : {R"({"format":0})", R"({"format":-1})", R"({"format":"2"})",
                           R"({"format":1.5})", R"({"format":null})"}) {
    EXPECT_EQ(error_text([&] { check_format(Json::parse(text), "f"); }),
              "f is damaged: format is not a whole number from 1")
        << text;
  }
  EXPECT_NO_THROW(check_format(Json::object(), "f")) << "0.1 wrote none";
  EXPECT_NO_THROW(check_format(Json(nullptr), "f"));
}

TEST(Format, ASweepIndexOfANewerFormatIsRefusedByName) {
  const TestFolder folder;
  write_file_whole(folder / "sweep.json", R"({"winnow_sweep":2,"name":"s","runs":[]})");
  EXPECT_EQ(error_text([&] { read_sweep_index(folder.path()); }),
            (folder / "sweep.json").string() +
                " was made by a newer Winnow: format 2, this program reads up to 1 | use the "
                "version that made it");
}

}  // namespace winnow::format_test

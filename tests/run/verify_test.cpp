#include "winnow/run/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/small_run.h"
#include "winnow/run/runner.h"

namespace winnow::verify_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

// Verifies and records the progress.
Verification verify(const fs::path& directory, std::int64_t rounds = 0,
                    std::vector<std::int64_t>* seen = nullptr) {
  return verify_run(directory, methods(), on_cpu(3), rounds, nullptr,
                    [&](std::int64_t round, std::int64_t /*total*/) {
                      if (seen != nullptr) {
                        seen->push_back(round);
                      }
                    });
}

void finish_run(const fs::path& directory) {
  RunObserver silence;
  start_run(small({"method.name=remembering"}), methods(), on_cpu(), directory, nullptr, silence);
}

TEST(Verify, AnHonestRunAgrees) {
  const TestFolder folder;
  finish_run(folder / "run");
  std::vector<std::int64_t> seen;
  const Verification result = verify(folder / "run", 0, &seen);
  EXPECT_EQ(result.compared, 4);
  EXPECT_EQ(result.differs_at, 0);
  EXPECT_THAT(seen, ElementsAre(1, 2, 3, 4));
}

TEST(Verify, OnlyTheFirstRoundsWhenAsked) {
  const TestFolder folder;
  finish_run(folder / "run");
  EXPECT_EQ(verify(folder / "run", 2).compared, 2);
  EXPECT_EQ(verify(folder / "run", 99).compared, 4);
}

TEST(Verify, FindsTheRoundWhoseHashWasChanged) {
  const TestFolder folder;
  finish_run(folder / "run");
  const std::string honest = read_history(folder / "run").at(2).hash;
  const std::string forged(64, 'f');
  std::string events = read_file(folder / "run/events.jsonl");
  events.replace(events.find(honest), 64, forged);
  write_file_whole(folder / "run/events.jsonl", events);
  const Verification result = verify(folder / "run");
  EXPECT_EQ(result.differs_at, 3);
  EXPECT_EQ(result.compared, 2);
  EXPECT_EQ(result.logged, forged);
  EXPECT_EQ(result.recomputed, honest);
  EXPECT_EQ(verify(folder / "run", 2).differs_at, 0);
}

TEST(Verify, RefusesALogOfMoreRoundsThanTheExperimentHas) {
  const TestFolder folder;
  finish_run(folder / "run");
  const std::string events = read_file(folder / "run/events.jsonl");
  write_file_whole(folder / "run/events.jsonl", events + events);
  EXPECT_EQ(error_text([&] { verify(folder / "run"); }),
            (folder / "run/events.jsonl").string() + " logs 8 rounds, but its experiment has 4");
}

TEST(Verify, FindsAChangedExperiment) {
  const TestFolder folder;
  finish_run(folder / "run");
  std::string text = read_file(folder / "run/experiment.toml");
  text.replace(text.find("seed = 1"), 8, "seed = 2");
  write_file_whole(folder / "run/experiment.toml", text);
  EXPECT_EQ(verify(folder / "run").differs_at, 1);
}

TEST(Verify, ARunWithoutARoundCannotBeVerified) {
  const TestFolder folder;
  fs::create_directories(folder / "run");
  write_file_whole(folder / "run/experiment.toml", small_toml());
  EXPECT_EQ(error_text([&] { verify(folder / "run"); }),
            (folder / "run").string() + " has no finished round to verify");
  EXPECT_THAT(error_text([&] { verify(folder / "nowhere"); }), HasSubstr("is not a run directory"));
}

TEST(Verify, ChangesNothing) {
  const TestFolder folder;
  finish_run(folder / "run");
  const std::string events = read_file(folder / "run/events.jsonl");
  const auto files = std::distance(fs::recursive_directory_iterator(folder.path()), {});
  verify(folder / "run");
  EXPECT_EQ(read_file(folder / "run/events.jsonl"), events);
  EXPECT_EQ(std::distance(fs::recursive_directory_iterator(folder.path()), {}), files);
}

TEST(Verify, CanBeStopped) {
  const TestFolder folder;
  finish_run(folder / "run");
  const std::atomic<bool> stop{true};
  EXPECT_THROW(
      verify_run(folder / "run", methods(), on_cpu(), 0, &stop, [](std::int64_t, std::int64_t) {}),
      Interrupted);
}

}  // namespace winnow::verify_test

#include "winnow/run/report_data.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "run/small_run.h"
#include "winnow/run/runner.h"

namespace winnow::report_data_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void play(const std::filesystem::path& directory, const std::vector<std::string>& sets = {}) {
  const Registry registry = builtin_methods();
  RunObserver silent;
  start_run(parse_experiment(small_tree(sets), registry), registry, on_cpu(1), directory, nullptr,
            silent);
}

Json read(const std::vector<std::string>& directories) {
  return ReportReader(directories).read();
}

TEST(ReportData, HasEverythingOfAFinishedRun) {
  const TestFolder folder;
  play(folder / "a");
  const Json data = read({(folder / "a").string()});
  ASSERT_EQ(data.at("runs").size(), 1U);
  const Json& run = data.at("runs").at(0);
  EXPECT_EQ(run.at("row"), "fedavg");
  EXPECT_EQ(run.at("column"), "small");
  EXPECT_EQ(run.at("status"), "finished");
  EXPECT_EQ(run.at("planned_rounds"), 4);
  EXPECT_EQ(run.at("uses_ground_truth"), false);
  EXPECT_EQ(run.at("experiment").at("federation").at("clients"), 4);
  EXPECT_EQ(run.at("history").at("round"), Json({1, 2, 3, 4}));
  EXPECT_EQ(run.at("history").at("accuracy").size(), 4U);
  EXPECT_FALSE(run.at("history").contains("label_precision"));
  EXPECT_EQ(run.at("summary").at("rounds"), 4);
  const auto& before = run.at("findings").at("confusion").at("before");
  EXPECT_EQ(before.size(), 4U);
  EXPECT_FALSE(run.at("findings").at("confusion").contains("after"));
  EXPECT_EQ(data.at("partitions").at(run.at("partition").get<std::size_t>()).at("clients").size(),
            4U);
}

TEST(ReportData, RunsOfOneWorldShareItsPartition) {
  const TestFolder folder;
  play(folder / "a");
  play(folder / "b", {"method.name=fedprox"});
  play(folder / "c", {"seed=2"});
  const Json data =
      read({(folder / "a").string(), (folder / "b").string(), (folder / "c").string()});
  std::vector<int> places;
  for (const Json& run : data.at("runs")) {
    places.push_back(run.at("partition").get<int>());
  }
  EXPECT_THAT(places, ElementsAre(0, 0, 1));
  EXPECT_EQ(data.at("partitions").size(), 2U);
}

TEST(ReportData, ScoresCarryTheirMixture) {
  const TestFolder folder;
  play(folder / "a");
  write_file_whole(folder / "a/findings.json",
                   R"({"round": 4, "scores": {"lid": {"by_client": {"0": 1.0, "1": 1.1, "2": 5.0,)"
                   R"( "3": 5.1}}}})");
  const Json data = read({(folder / "a").string()});
  const Json& mixture = data.at("runs").at(0).at("findings").at("scores").at("lid").at("mixture");
  EXPECT_NEAR(mixture.at("means").at(0).get<double>(), 1.05, 1e-6);
  EXPECT_NEAR(mixture.at("means").at(1).get<double>(), 5.05, 1e-6);
}

TEST(ReportData, AFolderWithoutTheNewerFilesIsReadAsFarAsItGoes) {
  const TestFolder folder;
  play(folder / "a");
  for (const char* name : {"summary.json", "findings.json", "partition.json", "events.jsonl"}) {
    std::filesystem::remove(folder / "a" / name);
  }
  const Json data = read({(folder / "a").string()});
  const Json& run = data.at("runs").at(0);
  EXPECT_EQ(run.at("status"), "stopped");
  EXPECT_EQ(run.at("history").at("round").size(), 0U);
  EXPECT_FALSE(run.contains("findings"));
  EXPECT_FALSE(run.contains("partition"));
}

TEST(ReportData, ARunIsUnderWayWhileAProcessHoldsItsLock) {
  const TestFolder folder;
  play(folder / "a", {"method.name=oracle"});
  std::filesystem::remove(folder / "a/summary.json");
  ReportReader reader({(folder / "a").string()});
  const auto status = [&] { return reader.read().at("runs").at(0).at("status"); };
  EXPECT_EQ(status(), "stopped");
  const std::string before = reader.stamp();
  const int lock = ::open((folder / "a/lock").c_str(), O_RDWR);
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  EXPECT_TRUE(is_running(folder / "a"));
  EXPECT_NE(reader.stamp(), before);
  EXPECT_EQ(status(), "started");
  ::close(lock);
  EXPECT_EQ(status(), "stopped");
  EXPECT_EQ(reader.read().at("runs").at(0).at("uses_ground_truth"), true);
}

TEST(ReportData, ARunThatASweepHasNotBegunIsWaiting) {
  const TestFolder folder;
  write_file_whole(folder / "sweep.json",
                   R"({"runs": [{"id": "a_s1", "row": "a", "column": "IID", "seed": 1}]})");
  const Json data = read({folder.path().string()});
  EXPECT_EQ(data.at("runs").at(0).at("status"), "waiting");
  EXPECT_EQ(data.at("runs").at(0).at("column"), "IID");
}

TEST(ReportData, TheStampChangesWithTheFilesAndReadingFollows) {
  const TestFolder folder;
  play(folder / "a");
  ReportReader reader({(folder / "a").string()});
  const std::string before = reader.stamp();
  EXPECT_EQ(reader.stamp(), before);
  EXPECT_EQ(reader.read().at("runs").at(0).at("status"), "finished");
  std::filesystem::remove(folder / "a/summary.json");
  EXPECT_NE(reader.stamp(), before);
  EXPECT_EQ(reader.read().at("runs").at(0).at("status"), "stopped");
}

TEST(ReportData, ErrorsNameTheFolderOrTheFile) {
  const TestFolder folder;
  const std::string nowhere = (folder / "nowhere").string();
  EXPECT_EQ(error_text([&] { read({nowhere}); }),
            nowhere +
                " holds neither a run nor a sweep | give a folder that 'winnow run' or "
                "'winnow sweep' has made");
  play(folder / "a");
  for (const char* name : {"findings.json", "partition.json", "summary.json"}) {
    const std::string kept = read_file(folder / "a" / name);
    write_file_whole(folder / "a" / name, "{");
    EXPECT_THAT(error_text([&] { read({(folder / "a").string()}); }),
                HasSubstr((folder / "a" / name).string() + " is damaged"));
    write_file_whole(folder / "a" / name, kept);
  }
}

}  // namespace winnow::report_data_test

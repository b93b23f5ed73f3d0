#include "winnow/sweep/report_data.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>

#include "run/small_run.h"
#include "winnow/run/runner.h"

namespace winnow::report_data_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void play(const std::filesystem::path& directory, const std::vector<std::string>& sets = {}) {
  const Registry registry = builtin_registry();
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
  for (const char* loss : {"loss", "train_loss"}) {
    ASSERT_EQ(run.at("history").at(loss).size(), 4U);
    EXPECT_GT(run.at("history").at(loss).at(3), 0.0) << loss;
  }
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
            nowhere + " does not exist | give a folder made by 'winnow run' or 'winnow sweep'");
  play(folder / "a");
  for (const char* name : {"findings.json", "partition.json", "summary.json"}) {
    const std::string kept = read_file(folder / "a" / name);
    write_file_whole(folder / "a" / name, "{");
    EXPECT_THAT(error_text([&] { read({(folder / "a").string()}); }),
                HasSubstr((folder / "a" / name).string() + " is damaged"));
    write_file_whole(folder / "a" / name, kept);
  }
}

const std::vector<std::string> kFedCorr{"method.name=fedcorr", "method.iterations=2",
                                        "method.finetune_rounds=1", "method.usual_rounds=1",
                                        "method.lid_neighbours=5"};

// The figures 3 and 6 to 8 of the FedCorr paper.
TEST(ReportData, HasFedCorrsLidsAndItsLabelsAtThreeTimes) {
  const TestFolder folder;
  play(folder / "a", kFedCorr);
  const Json data = read({(folder / "a").string()});
  const Json& run = data.at("runs").at(0);
  for (const char* name : {"lid", "lid_cumulative"}) {
    const Json& times = run.at("findings").at("series").at(name);
    ASSERT_EQ(times.size(), 2U);
    EXPECT_EQ(times.at(0).at("by_client").size(), 4U);
  }
  EXPECT_EQ(run.at("findings").at("series").at("lid_cumulative").at(1).at("by_client"),
            run.at("findings").at("scores").at("lid").at("by_client"));
  const Json& labels = run.at("labels");
  ASSERT_EQ(labels.size(), 3U);
  EXPECT_EQ(labels.at(0).at("name"), "start");
  EXPECT_EQ(labels.at(0).at("round"), 0);
  EXPECT_EQ(labels.at(1).at("name"), "stage 1");
  EXPECT_EQ(labels.at(1).at("round"), 8);
  EXPECT_EQ(labels.at(2).at("name"), "stage 2");
  const Json& clients = data.at("partitions").at(0).at("clients");
  for (std::size_t client = 0; client < 4; ++client) {
    EXPECT_EQ(labels.at(0).at("levels").at(std::to_string(client)),
              clients.at(client).at("wrong_share"));
  }
  EXPECT_EQ(labels.at(0).at("splits").size(), 0U);
  const Json& flagged = run.at("findings").at("flagged");
  EXPECT_EQ(labels.at(1).at("splits").size(), flagged.size());
  for (const auto& [client, counts] : labels.at(1).at("splits").items()) {
    EXPECT_EQ(counts.size(), 4U);
    EXPECT_EQ(counts.at(0).get<int>() + counts.at(1).get<int>() + counts.at(2).get<int>() +
                  counts.at(3).get<int>(),
              clients.at(std::stoul(client)).at("samples"));
  }
  EXPECT_EQ(labels.at(2).at("confusions").size(), 4U);
}

TEST(ReportData, LabelsOfAStoppedRunAreThoseOfAnUndisturbedOne) {
  const TestFolder folder;
  const Registry registry = builtin_registry();
  const Experiment experiment = parse_experiment(small_tree(kFedCorr), registry);
  play(folder / "a", kFedCorr);
  std::atomic<bool> stop = false;
  struct Stopper final : RunObserver {
    explicit Stopper(std::atomic<bool>& its_flag) : flag(&its_flag) {}
    void played(const Session& session, const Session::Played& /*played*/) override {
      *flag = session.rounds_done() == 9;
    }
    std::atomic<bool>* flag;
  } observer(stop);
  EXPECT_TRUE(
      start_run(experiment, registry, on_cpu(1), folder / "b", &stop, observer).interrupted);
  RunObserver silent;
  resume_run(folder / "b", registry, on_cpu(1), nullptr, silent);
  const auto run = [&](const char* name) {
    return read({(folder / name).string()}).at("runs").at(0);
  };
  EXPECT_EQ(run("a").at("labels"), run("b").at("labels"));
  EXPECT_EQ(run("a").at("findings"), run("b").at("findings"));
}

TEST(ReportData, HasFedRNsLikenessAndFedNSsNorms) {
  const TestFolder folder;
  play(folder / "a", {"method.name=fedrn", "method.warmup=1", "federation.fraction=1.0"});
  play(folder / "b", {"method.name=fedns", "method.debug_density=true"});
  const Json data = read({(folder / "a").string(), (folder / "b").string()});
  const Json& likeness = data.at("runs").at(0).at("findings").at("likeness");
  EXPECT_EQ(likeness.at("clients"), Json({0, 1, 2, 3}));
  EXPECT_EQ(likeness.at("values").at(2).at(2), 1.0);
  const Json& norms = data.at("runs").at(1).at("norms");
  EXPECT_EQ(norms.at("thinned"), false);
  ASSERT_EQ(norms.at("by_client").size(), 4U);
  EXPECT_EQ(norms.at("by_client").at("0").size(), 3U) << "40 samples in batches of 16";
}

// The figure 1 of the FedRN paper.
TEST(ReportData, LocalModelsAreMeasuredWhenAskedForAndChangeNothing) {
  const TestFolder folder;
  play(folder / "a");
  play(folder / "b", {"local_accuracy=true"});
  const auto run = [&](const char* name) {
    return read({(folder / name).string()}).at("runs").at(0);
  };
  EXPECT_EQ(run("a").at("summary").at("model_hash"), run("b").at("summary").at("model_hash"));
  EXPECT_FALSE(run("a").at("findings").contains("scores"));
  const Json scores = run("b").at("findings").at("scores");
  for (const char* name : {"local_accuracy", "local_accuracy_own"}) {
    EXPECT_GE(scores.at(name).at("by_client").size(), 2U);
    for (const auto& [client, value] : scores.at(name).at("by_client").items()) {
      EXPECT_GE(value.get<double>(), 0.0);
      EXPECT_LE(value.get<double>(), 1.0);
    }
  }
}

TEST(ReportData, ALabelsEventThatIsNoneIsNamed) {
  const TestFolder folder;
  play(folder / "a");
  const std::string events = read_file(folder / "a/events.jsonl");
  const auto told = [&](const std::string& line) {
    write_file_whole(folder / "a/events.jsonl", events + line + "\n");
    return error_text([&] { read({(folder / "a").string()}); });
  };
  const std::string damaged = (folder / "a/events.jsonl").string() + " is damaged: ";
  EXPECT_EQ(told(R"({"event": "labels", "name": "x", "round": 1, "levels": {"0": 2}})"),
            damaged + "levels.0 = 2: expected 0 to 1");
  EXPECT_EQ(told(R"({"event": "labels", "name": "x", "round": 1, "levels": {"0": 1},)"
                 R"( "splits": {"0": [1, 2]}})"),
            damaged + "splits.0: expected 4 counts");
}

constexpr const char* kTwoMembers =
    R"({"round": 3, "members": [{"name": "ann", "client": 0, "status": "present", "samples": 40,
    "version": "0.2.0", "last_seen": "2026-11-18T06:20:00.123Z", "rounds": 3, "absences": 0,
    "refusals": 2, "expires": "2027-11-18T06:20:00.000Z"}, {"name": "bob", "client": 1,
    "status": "enrolled", "samples": 0, "version": "", "last_seen": null, "rounds": 0,
    "absences": 0, "refusals": 0, "expires": null}]})";

TEST(ReportData, AServedRunHasItsMembersAndAPageFollowsThem) {
  const TestFolder folder;
  play(folder / "a");
  ReportReader reader({(folder / "a").string()});
  EXPECT_FALSE(reader.read().at("runs").at(0).contains("members"));
  std::string stamp = reader.stamp();
  write_file_whole(folder / "a/members.json", kTwoMembers);
  EXPECT_NE(reader.stamp(), stamp);
  stamp = reader.stamp();
  Json members = reader.read().at("runs").at(0).at("members");
  EXPECT_EQ(members.at("round"), 3);
  ASSERT_EQ(members.at("members").size(), 2U);
  EXPECT_EQ(members.at("members").at(0).at("refusals"), 2);
  EXPECT_EQ(members.at("members").at(1).at("last_seen"), nullptr);
  std::string gone = kTwoMembers;
  gone.replace(gone.find("present"), 7, "away");
  write_file_whole(folder / "a/members.json", gone);
  EXPECT_NE(reader.stamp(), stamp);
  members = reader.read().at("runs").at(0).at("members");
  EXPECT_EQ(members.at("members").at(0).at("status"), "away");
}

TEST(ReportData, AFileOfMembersThatIsNoneIsNamed) {
  const TestFolder folder;
  play(folder / "a");
  const std::filesystem::path path = folder / "a/members.json";
  const auto told = [&](const std::string& text) {
    write_file_whole(path, text);
    return error_text([&] { read({(folder / "a").string()}); });
  };
  const std::string damaged = path.string() + " is damaged: ";
  const std::string hint = " | delete it; 'winnow serve' writes it anew";
  EXPECT_EQ(told("[1]"), damaged + "it is no object" + hint);
  EXPECT_EQ(told("{}"), damaged + "members is missing" + hint);
  EXPECT_THAT(told(std::string(kTwoMembers).substr(0, 100)), HasSubstr(damaged));
  EXPECT_THAT(
      told(R"({"round": 1, "members": )" + std::string(100, '[') + std::string(100, ']') + "}"),
      HasSubstr(damaged));
  EXPECT_EQ(told(R"({"round": 1, "members": ["ann"]})"),
            damaged + R"(members[0] = "ann": expected a table)" + hint);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(error_text([&] { read({(folder / "a").string()}); }), HasSubstr(path.string()));
  std::filesystem::remove(path);
  write_file_whole(path, "");
  std::filesystem::resize_file(path, (std::uintmax_t{64} << 20) + 1);
  EXPECT_THAT(error_text([&] { read({(folder / "a").string()}); }),
              HasSubstr("it has 67108865 bytes, more than the 67108864 allowed"));
}

}  // namespace winnow::report_data_test

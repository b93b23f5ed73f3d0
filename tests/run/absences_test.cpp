#include "winnow/run/absences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/method_schedules.h"
#include "run/small_run.h"
#include "winnow/run/runner.h"

namespace winnow::absences_test {

using ::testing::HasSubstr;

// What a network does to a run, a simulation can do again.
TEST(Absences, OfARunArePlayedAgain) {
  for (const std::string method : {"fedavg", "fedcorr", "clc"}) {
    const TestFolder folder;
    RunObserver silence;
    const RunOutcome first = start_run(experiment_with(method, {"federation.dropout=0.3"}),
                                       methods(), on_cpu(), folder / "first", nullptr, silence);
    const std::string events = (folder / "first" / "events.jsonl").string();
    ASSERT_THAT(read_file(events), HasSubstr("\"reason\":\"silent\""));
    const RunOutcome again =
        start_run(experiment_with(method, {"federation.absences=\"" + events + "\""}), methods(),
                  on_cpu(), folder / "again", nullptr, silence);
    EXPECT_EQ(again.summary.at("model_hash"), first.summary.at("model_hash")) << method;
    const RunOutcome calm =
        start_run(experiment_with(method), methods(), on_cpu(), folder / "calm", nullptr, silence);
    EXPECT_NE(calm.summary.at("model_hash"), first.summary.at("model_hash")) << method;
  }
}

TEST(Absences, OfAFileAreChecked) {
  const TestFolder folder;
  const std::string file = (folder / "events.jsonl").string();
  EXPECT_EQ(error_text([&] { read_absences(file, 4); }),
            "federation.absences = \"" + file +
                "\": no such file | give the events.jsonl of a run directory");
  const auto text = [&](const std::string& log) {
    write_file_whole(file, log);
    return error_text([&] { read_absences(file, 4); });
  };
  EXPECT_THAT(text("{\"event\":\"started\"}\n{not json\n"), HasSubstr(file + " line 2"));
  EXPECT_THAT(text("{\"event\":\"round\",\"round\":1,\"absent\":[{\"ask\":0,\"client\":9,"
                   "\"reason\":\"silent\"}]}\n"),
              HasSubstr(file + " line 1: "));
  EXPECT_EQ(text("{\"event\":\"round\",\"round\":1}\n{\"event\":\"rou"), "no error")
      << "a killed run's last line is not whole";
}

// A key that was not there before leaves the identity of older runs alone.
TEST(Absences, DoNotChangeTheHashOfAnExperimentWithoutThem) {
  const Experiment plain = experiment_with("fedavg");
  EXPECT_EQ(plain.hash(), experiment_with("fedavg", {"federation.dropout=0.0"}).hash());
  EXPECT_NE(plain.hash(), experiment_with("fedavg", {"federation.dropout=0.1"}).hash());
}

}  // namespace winnow::absences_test

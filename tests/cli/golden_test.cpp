// Run directories that earlier formats have left (tests/golden): every command reads them, or says
// by name why not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"
#include "winnow/report/table.h"
#include "winnow/run/format.h"

namespace winnow::golden_test {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// A copy of the directories of one format: commands lock what they read.
class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    fs::copy(fs::path(WINNOW_SOURCE_DIR) / "tests/golden" / GetParam(), shop_ / "golden",
             fs::copy_options::recursive);
  }

  // "stopped", and "stopped-5" of a checkpoint version that the directory's number does not tell.
  Words stopped() const {
    Words names = names_in(shop_ / "golden");
    std::erase_if(names, [](const std::string& name) { return !name.starts_with("stopped"); });
    return names;
  }

  Json summary(const std::string& run) const {
    return Json::parse(read_file(shop_ / ("golden/" + run + "/summary.json")));
  }

  Workshop shop_;
};

std::vector<std::string> formats() {
  Words names;
  for (const std::string& name : names_in(fs::path(WINNOW_SOURCE_DIR) / "tests/golden")) {
    if (name.starts_with("format-")) {
      names.push_back(name);
    }
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Formats, Golden, ::testing::ValuesIn(formats()), [](const auto& info) {
  std::string name = info.param;
  name.erase(name.find('-'), 1);
  return name;
});

TEST(GoldenFormats, EveryFormatUpToThePresentHasItsDirectories) {
  for (std::int64_t format = 1; format <= kRunFormat; ++format) {
    EXPECT_EQ(std::ranges::count(formats(), "format-" + std::to_string(format)), 1) << format;
  }
}

TEST_P(Golden, ATableOfAFinishedRunHasItsFigures) {
  const std::string text =
      shop_.done({"table", "golden/finished", "--metric", join(table_metrics(), ",")}).out;
  const auto percent = [](const Json& share) {
    return fmt::format("{:.2f}", 100.0 * share.get<double>());
  };
  const Json known = summary("finished");
  EXPECT_THAT(text, HasSubstr("fedcorr"));
  EXPECT_THAT(text, HasSubstr(percent(known.at("best"))));
  EXPECT_THAT(text, AnyOf(HasSubstr("66.67"), HasSubstr("0.667")))
      << "precision and recall of the flagged clients: " << text;
}

TEST_P(Golden, ASweepIsShownWithItsPublishedFigures) {
  const std::string text = shop_.done({"table", "golden/sweep", "--paper"}).out;
  EXPECT_THAT(text, HasSubstr("fedprox"));
  EXPECT_THAT(text, HasSubstr("50.00"));
}

TEST_P(Golden, ASweepIsCompleteForTheCommandThatMadeIt) {
  const Json runs =
      shop_.done({"sweep", "golden/sweep.toml", "--out", "golden/sweep", "--dry-run", "--json"})
          .json();
  ASSERT_EQ(runs.size(), 4U);
  for (const Json& run : runs) {
    EXPECT_EQ(run.at("plan"), "finished") << run;
  }
}

TEST_P(Golden, AResultsFileGivesTheTableOfItsSweep) {
  const Words table{"--metric", "best,last", "--format", "csv"};
  Words from_file{"table", "golden/sweep.toml", "--results", "golden/results.csv"};
  Words from_runs{"table", "golden/sweep"};
  from_file.insert(from_file.end(), table.begin(), table.end());
  from_runs.insert(from_runs.end(), table.begin(), table.end());
  EXPECT_EQ(shop_.done(from_file).out, shop_.done(from_runs).out);
}

TEST_P(Golden, AReportShowsAllOfThem) {
  const Json report =
      shop_.done({"report", "golden/finished", "golden/stopped", "golden/sweep", "--json"}).json();
  ASSERT_EQ(report.at("runs").size(), 6U);
  const Json& finished = report.at("runs")[0];
  EXPECT_EQ(finished.at("status"), "finished");
  EXPECT_EQ(finished.at("history").at("round").size(), summary("finished").at("rounds"));
  EXPECT_TRUE(finished.at("findings").contains("scores"));
  EXPECT_FALSE(finished.at("labels").empty());
  EXPECT_EQ(report.at("runs")[1].at("status"), "stopped");
  EXPECT_FALSE(report.at("partitions").empty());
}

TEST_P(Golden, TheExperimentOfARunCanBeInspected) {
  const Json shown = shop_.done({"inspect", "golden/finished/experiment.toml", "--json"}).json();
  EXPECT_EQ(shown.at("clients").size(), 5U);
}

// A checkpoint of an older version is refused, as it must be: a run goes on in the same bits.
TEST_P(Golden, AStoppedRunGoesOnOrIsRefusedByName) {
  for (const std::string& name : stopped()) {
    const fs::path run = shop_ / ("golden/" + name);
    const std::string before = read_file(run / "events.jsonl");
    const Ended ended = shop_.call({"resume", "golden/" + name, "--device", "cpu", "--json"});
    if (ended.code != 0 && GetParam() != "format-" + std::to_string(kRunFormat)) {
      EXPECT_EQ(ended.code, 5);
      EXPECT_THAT(ended.err, HasSubstr("round-000000007.safetensors was made by an older Winnow"));
      EXPECT_EQ(read_file(run / "events.jsonl"), before);
      continue;
    }
    ASSERT_EQ(ended.code, 0) << name << ": " << ended.err;
    const Json result = ended.json();
    EXPECT_EQ(result.at("rounds"), 46) << name;
    EXPECT_THAT(read_file(run / "events.jsonl"), StartsWith(before)) << name;
    EXPECT_EQ(result.at("ledger_hash"),
              Json::parse(read_file(run / "partition.json")).at("ledger_hash"))
        << name;
  }
}

TEST(GoldenFormats, TheCheckpointInSegmentsIsAmongThem) {
  const fs::path stopped =
      fs::path(WINNOW_SOURCE_DIR) / "tests/golden/format-2/stopped-5/checkpoint";
  EXPECT_EQ(names_in(stopped), (Words{"clients-0-000001.segment", "round-000000007.safetensors"}));
  EXPECT_THAT(read_file(stopped / "round-000000007.safetensors"), HasSubstr("\\\"version\\\":5"));
}

TEST_P(Golden, AFinishedRunIsLeftAsItIs) {
  const std::string before = read_file(shop_ / "golden/finished/summary.json");
  shop_.done({"resume", "golden/finished"});
  EXPECT_EQ(read_file(shop_ / "golden/finished/summary.json"), before);
}

// Other libraries, or a change of results that the change log names, may give other bits: reading
// the directory is what is tested here.
TEST_P(Golden, ARunIsVerified) {
  const Ended ended = shop_.call({"verify", "golden/finished", "--device", "cpu"});
  EXPECT_THAT(ended.code, AnyOf(0, 7)) << ended.err;
  EXPECT_THAT(ended.out, AnyOf(HasSubstr("rounds verified"), HasSubstr("differs")));
}

TEST_P(Golden, ANewerFormatIsRefusedByEveryCommand) {
  for (const char* file : {"finished/summary.json", "stopped/events.jsonl"}) {
    const fs::path path = shop_ / (std::string("golden/") + file);
    std::string text = read_file(path);
    const std::size_t end =
        file == std::string("finished/summary.json") ? text.size() : text.find('\n');
    Json changed = Json::parse(text.substr(0, end));
    changed["format"] = 99;
    text.replace(0, end, changed.dump());
    write_file_whole(path, text);
  }
  const auto expect_refused = [&](const Words& words, const std::string& file) {
    const Ended ended = shop_.call(words);
    EXPECT_EQ(ended.code, 5) << words[0];
    EXPECT_EQ(ended.err,
              fmt::format("winnow: golden/{} was made by a newer Winnow: format 99, this "
                          "program reads up to {}\n  use version 0.1.0, which made it\n",
                          file, kRunFormat))
        << words[0];
  };
  for (const char* command : {"table", "report", "resume"}) {
    expect_refused({command, "golden/finished"}, "finished/summary.json");
  }
  for (const char* command : {"table", "report", "resume", "verify"}) {
    expect_refused({command, "golden/stopped"}, "stopped/events.jsonl");
  }
}

}  // namespace winnow::golden_test

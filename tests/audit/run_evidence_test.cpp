#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "run/small_run.h"
#include "winnow/audit/run_evidence.h"
#include "winnow/run/run_directory.h"
#include "winnow/run/runner.h"

namespace winnow::run_evidence_test {

// A run of the method audit, with what it found changed as a test wants it.
class AuditEvidence : public ::testing::Test {
 protected:
  AuditEvidence() {
    Json tree = small_tree({"rounds=1", "federation.fraction=1.0", "method.folds=2"});
    tree["method"]["name"] = "audit";
    const Experiment experiment = parse_experiment(tree, builtin_registry());
    RunObserver silence;
    start_run(experiment, builtin_registry(), on_cpu(1), run_, nullptr, silence);
    findings_ = Json::parse(read_file(run_ / "findings.json"));
  }

  void set(const std::string& name, const std::string& client, double value) {
    findings_["scores"][name]["by_client"][client] = value;
  }
  void set_verdict(const std::string& client, const std::string& likely) {
    for (const char* name :
         {"p_nothing_wrong", "p_label_noise", "p_input_noise", "p_rare_but_honest", "p_hostile"}) {
      set(name, client, name == likely ? 0.8 : 0.05);
    }
  }
  RunEvidence read() const {
    write_file_whole(run_ / "findings.json", findings_.dump());
    return read_run_evidence(run_);
  }
  static std::string cell(const RunEvidence& evidence,
                          const std::vector<std::vector<std::string>>& rows, std::size_t client,
                          const std::string& column) {
    const auto at = std::ranges::find(evidence.columns, column);
    return at == evidence.columns.end()
               ? "no column"
               : rows[client][static_cast<std::size_t>(at - evidence.columns.begin())];
  }

  TestFolder folder_;
  std::filesystem::path run_ = folder_ / "run";
  Json findings_;
};

TEST_F(AuditEvidence, HasVerdictsAndKindsInWords) {
  set_verdict("0", "p_nothing_wrong");
  set("kind", "0", 0);
  set("judged", "0", 40);
  set_verdict("1", "p_label_noise");
  set("kind", "1", 2);
  set("judged", "1", 40);
  set("noise_rate", "1", 0.25);
  set_verdict("2", "p_input_noise");
  set("kind", "2", 1);
  const RunEvidence evidence = read();
  const auto of = [&](std::size_t client, const std::string& column) {
    return cell(evidence, evidence.rows, client, column);
  };
  EXPECT_EQ(of(0, "verdict"), "nothing wrong");
  EXPECT_EQ(of(0, "kind"), "none");
  EXPECT_EQ(of(1, "verdict"), "label noise");
  EXPECT_EQ(of(1, "probability"), "0.8000");
  EXPECT_EQ(of(1, "kind"), "pair");
  EXPECT_EQ(of(1, "judged"), "40");
  EXPECT_EQ(of(1, "noise_rate"), "0.2500");
  EXPECT_EQ(of(2, "kind"), "distorted images");
  EXPECT_EQ(of(1, "noise_level"), "no column") << "it is the noise rate again";
  EXPECT_EQ(cell(evidence, evidence.shown(), 1, "noise_rate"), "25.00%");
  EXPECT_EQ(cell(evidence, evidence.shown(), 1, "probability"), "80.00%");
  for (const std::string& note : evidence.notes) {
    EXPECT_EQ(note.find("judged"), std::string::npos) << "a count is no detector";
  }
}

TEST_F(AuditEvidence, OfTooFewSamplesThereIsNoRate) {
  for (const auto& [client, judged] :
       {std::pair{"0", 0.0}, std::pair{"1", 29.0}, std::pair{"2", 30.0}}) {
    set("judged", client, judged);
    set("noise_rate", client, 0.125);
  }
  const RunEvidence evidence = read();
  for (const std::size_t client : {0, 1}) {
    EXPECT_EQ(cell(evidence, evidence.shown(), client, "noise_rate"), "too few to say");
    EXPECT_EQ(cell(evidence, evidence.rows, client, "noise_rate"), "") << "programs read nothing";
    EXPECT_EQ(cell(evidence, evidence.rows, client, "noise_rate_high"), "");
    EXPECT_EQ(cell(evidence, evidence.rows, client, "too_few_to_say"), "yes");
  }
  EXPECT_EQ(cell(evidence, evidence.rows, 2, "too_few_to_say"), "no");
  EXPECT_EQ(cell(evidence, evidence.shown(), 2, "noise_rate"), "12.50%");
}

TEST_F(AuditEvidence, MembersHaveTheSamplesThatTheySaidTheyHave) {
  EXPECT_EQ(cell(read(), read().rows, 1, "samples"), "40");
  write_file_whole(run_ / kMembersFile,
                   R"({"round": 3, "members": [{"client": 1, "samples": 77}, {"client": 0}, 5]})");
  const RunEvidence evidence = read();
  EXPECT_EQ(cell(evidence, evidence.rows, 1, "samples"), "77");
  EXPECT_EQ(cell(evidence, evidence.rows, 2, "samples"), "40");
}

TEST_F(AuditEvidence, NumbersThatAreNoneAreLeftOut) {
  set("kind", "0", 17);
  findings_["scores"]["p_hostile"] = Json{{"by_client", Json::array()}};
  findings_["scores"]["judged"]["by_client"]["1"] = "many";
  const RunEvidence evidence = read();
  EXPECT_EQ(cell(evidence, evidence.rows, 0, "verdict"), "");
  EXPECT_EQ(cell(evidence, evidence.rows, 0, "kind"), "17.0000");
  EXPECT_EQ(cell(evidence, evidence.rows, 1, "too_few_to_say"), "no");
}

}  // namespace winnow::run_evidence_test

// `winnow audit` as a program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace winnow::audit_command_test {

using ::testing::HasSubstr;

const Words kQuick{"audit", "e.toml",         "--folds", "2",     "--rounds", "1",
                   "--set", "train.epochs=1", "--out",   "found", "--quiet"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The largest file is written last.
TEST(AuditCommand, AJudgementThatCannotBeWrittenLosesNothingElse) {
  const Workshop shop;
  std::filesystem::create_directories(shop / "found/judgement.npz/in the way");
  const Ended ended = shop.call(with(kQuick, {"--judgement"}));
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr("judgement.npz"));
  EXPECT_THAT(ended.out, HasSubstr("estimated share of wrong labels"));
  for (const char* name : {"audit.json", "audit.csv", "samples.csv", "relabel.csv", "audit.html"}) {
    EXPECT_TRUE(std::filesystem::exists(shop / "found" / name)) << name;
  }
}

TEST(AuditCommand, SaysHowWellLabelsAreFoundFromAllProbabilitiesAndFromSums) {
  const Workshop shop;
  const Ended ended = shop.done(kQuick);
  EXPECT_THAT(ended.out, HasSubstr("wrong labels, by the ledger: "));
  EXPECT_THAT(ended.out, HasSubstr("wrong labels, as sums of a federation find them: "));
  const Json json = Json::parse(read_file(shop / "found/audit.json"));
  EXPECT_EQ(json["quality"]["labels_by_sums"]["wrong"], json["quality"]["labels"]["wrong"]);
  EXPECT_TRUE(json["clients"][0].contains("confident_noise_rate"));
  const std::string samples = read_file(shop / "found/samples.csv");
  EXPECT_THAT(samples.substr(0, samples.find('\n')),
              HasSubstr("input_noise_score,suggested_label"));
}

}  // namespace winnow::audit_command_test

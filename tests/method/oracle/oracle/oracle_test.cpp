#include "winnow/method/oracle/oracle/oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "method/small_federation.h"
#include "winnow/method/base_method.h"

namespace winnow::oracle_test {

std::unique_ptr<Method> oracle(const Json& table = Json::object()) {
  std::unique_ptr<Method> method = oracle_info().make();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

std::unique_ptr<Method> plain(const std::string& name, const Json& table = Json::object()) {
  std::unique_ptr<Method> method = builtin_methods().find(name).make();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

// spec: baselines 27
TEST(Oracle, SaysThatItUsesGroundTruth) {
  const MethodInfo info = oracle_info();
  EXPECT_EQ(info.truth, Truth::samples);
  EXPECT_EQ(info.group, "oracle");
  EXPECT_THAT(info.summary, testing::StartsWith("uses ground truth"));
}

// spec: baselines 27. What it is given decides; here that is everything.
TEST(Oracle, IsItsBaseMethodBitForBit) {
  EXPECT_EQ(round_hashes(*oracle()), round_hashes(*plain("fedavg")));
  EXPECT_EQ(round_hashes(*oracle({{"base", {{"name", "fedprox"}, {"mu", 0.5}}}})),
            round_hashes(*plain("fedprox", {{"mu", 0.5}})));
  EXPECT_EQ(round_hashes(*oracle({{"base", "scaffold"}})), round_hashes(*plain("scaffold")));
  const std::vector<std::string> trimmed =
      round_hashes(*oracle({{"base", {{"name", "trimmed_mean"}, {"trim", 0.34}}}}));
  EXPECT_EQ(trimmed, round_hashes(*plain("trimmed_mean", {{"trim", 0.34}})));
  EXPECT_NE(trimmed, round_hashes(*plain("fedavg")));
}

TEST(Oracle, SendsWhatItsBaseSends) {
  const std::unique_ptr<Method> method = oracle();
  const SentInARound sent = sent_in_a_round(*method);
  EXPECT_EQ(sent.traffic.bytes_down, 2 * 24);
  EXPECT_EQ(sent.traffic.bytes_up, 2 * 24);
  EXPECT_EQ(sent.kinds, (std::vector<std::string>{"train", "train_done"}));
}

TEST(Oracle, SavesAndLoadsItsBase) {
  const Json table{{"base", "fedavgm"}};
  const std::unique_ptr<Method> whole = oracle(table);
  round_hashes(*whole);
  Archive archive;
  whole->save(archive);
  EXPECT_TRUE(archive.tensors.contains("base.fedavgm.velocity"));
  const std::unique_ptr<Method> resumed = oracle(table);
  resumed->load(archive);
  const std::vector<std::string> after = round_hashes(*whole);
  EXPECT_EQ(round_hashes(*resumed), after);
  whole->load({});
  EXPECT_NE(round_hashes(*whole), after) << "an empty archive clears";
}

TEST(Oracle, AsksForWhatItsBaseAsksFor) {
  EXPECT_EQ(oracle()->projection(), 0);
  EXPECT_EQ(oracle({{"base", "moon"}})->projection(), 256);
  EXPECT_TRUE(oracle({{"base", "moon"}})->needs_features());
  EXPECT_FALSE(oracle()->needs_features());
}

TEST(Oracle, RefusesABaseThatIsNone) {
  EXPECT_THAT(error_text([] {
                oracle({{"base", "fedcorr"}});
              }),
              testing::HasSubstr("method.base = \"fedcorr\": "));
  EXPECT_THAT(error_text([] {
                oracle({{"base", "oracle"}});
              }),
              testing::HasSubstr("method.base = \"oracle\": "));
}

}  // namespace winnow::oracle_test

// What users can do with the boundary between server and clients: messages as bytes, absences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace winnow::boundary_test {

using ::testing::HasSubstr;

std::string hash_of(const Workshop& shop, const std::string& out, const Words& more = {}) {
  Words words{"run", "e.toml", "--out", out, "--json", "--quiet", "--lanes", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return shop.done(words).json().at("model_hash").get<std::string>();
}

TEST(Boundary, MessagesAsBytesGiveTheSameModel) {
  const Workshop shop;
  EXPECT_EQ(hash_of(shop, "wired", {"--wire"}), hash_of(shop, "direct"));
}

TEST(Boundary, AbsencesOfARunArePlayedAgain) {
  const Workshop shop;
  const std::string first = hash_of(shop, "first", {"--set", "federation.dropout=0.4"});
  EXPECT_NE(hash_of(shop, "calm"), first);
  EXPECT_EQ(hash_of(shop, "again", {"--absences", "first/events.jsonl"}), first);
  shop.done({"verify", "again"});
  const Ended ended = shop.call({"run", "e.toml", "--out", "none", "--absences", "gone.jsonl"});
  EXPECT_EQ(ended.code, 4);
  EXPECT_THAT(ended.err, HasSubstr("gone.jsonl\": no such file"));
}

TEST(Boundary, ADropoutIsAShare) {
  const Workshop shop;
  const Ended ended = shop.call({"run", "e.toml", "--set", "federation.dropout=1.5"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("federation.dropout"));
}

}  // namespace winnow::boundary_test

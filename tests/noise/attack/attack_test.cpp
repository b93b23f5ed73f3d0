#include "winnow/noise/attack/attack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/support.h"
#include "winnow/noise/noise.h"

namespace winnow::attack_test {

using testing::ElementsAre;
using testing::HasSubstr;

Noise parse(const Json& table) {
  return parse_noise(table, builtin_label_noises(), builtin_distortions(), "noise.0");
}

TEST(Attack, ReadsBackWhatItIs) {
  const Json table{{"name", "attack"}, {"kind", "alie"}, {"z", 2.0}, {"share", 0.3}};
  const Attack attack = Attack::parse(table);
  EXPECT_EQ(attack.options().kind, "alie");
  EXPECT_TRUE(attack.options().colludes());
  EXPECT_EQ(Attack::parse(attack.values()).values(), attack.values());
  EXPECT_EQ(values(parse(table)), attack.values());
}

TEST(Attack, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(error_text([] {
                Attack::parse({{"name", "attack"}, {"kind", "shout"}}, "noise.0");
              }),
              HasSubstr("one of sign_flip, alie, inner_product, random, free_rider"));
  EXPECT_THAT(error_text([] {
                parse({{"name", "sign_flip"}});
              }),
              HasSubstr("did you mean 'attack'?"));
}

TEST(Attack, DrawsAnExactShare) {
  const Attack attack = Attack::parse({{"name", "attack"}, {"share", 0.3}});
  const auto chosen = attack.attackers(20, 5, 1);
  EXPECT_EQ(chosen.size(), 6U);
  EXPECT_EQ(chosen, attack.attackers(20, 5, 1));
  EXPECT_NE(chosen, attack.attackers(20, 6, 1));
}

TEST(Attack, IsInTheLedgerAndChangesNoLabel) {
  const Assignment assign{{0, 1}, {2, 3}};
  const std::vector<std::int64_t> labels{0, 1, 0, 1};
  const GivenLabels given{{0, 1}, {1, 1}};
  Ledger ledger(5, 4, 2);
  Attack::parse({{"name", "attack"}, {"clients", {1}}})
      .apply({assign, labels, 2, 5, 0}, given, ledger);
  EXPECT_THAT(ledger.noisy_clients(), ElementsAre(1));
  ASSERT_EQ(ledger.clients().size(), 1U);
  EXPECT_EQ(ledger.clients()[0].name, "attack");
  EXPECT_EQ(ledger.clients()[0].wrong, 1) << "what an earlier block has made wrong";
  EXPECT_TRUE(ledger.samples().empty());
}

}  // namespace winnow::attack_test

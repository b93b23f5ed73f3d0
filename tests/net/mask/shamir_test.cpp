#include "winnow/net/mask/shamir.h"

#include <gtest/gtest.h>

#include "testing/support.h"
#include "winnow/net/mask/secrets.h"

namespace winnow::mask::shamir_test {

TEST(Field, ProductsAreTheWorkedNumbers) {
  EXPECT_EQ(field_product(7, 2), 14);
  EXPECT_EQ(field_product(7, 3), 9) << "7 + 14 without carries";
  EXPECT_EQ(field_product(0x8000, 2), 0x100B) << "x^16 is x^12 + x^3 + x + 1";
  EXPECT_EQ(field_product(0, 1234), 0);
  EXPECT_EQ(field_product(1, 0xFFFF), 0xFFFF);
}

TEST(Field, EveryNumberButZeroHasAnInverse) {
  for (std::uint32_t a = 1; a < 0x10000; ++a) {
    const auto number = static_cast<std::uint16_t>(a);
    ASSERT_EQ(field_product(number, field_inverse(number)), 1) << a;
  }
  EXPECT_EQ(field_inverse(0), 0);
}

// f(x) = 5 + 7 x: f(1) = 5 ^ 7 = 2, f(2) = 5 ^ 14 = 11, f(3) = 5 ^ 9 = 12.
TEST(Shamir, SharesAreTheWorkedNumbers) {
  const std::string secret("\x05\x00", 2);
  const std::vector<std::string> shares = split_secret(secret, 2, 3, std::string("\x07\x00", 2));
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_EQ(shares[0], std::string("\x02\x00", 2));
  EXPECT_EQ(shares[1], std::string("\x0B\x00", 2));
  EXPECT_EQ(shares[2], std::string("\x0C\x00", 2));
  EXPECT_EQ(join_secret({{1, shares[0]}, {3, shares[2]}}), secret);
  EXPECT_EQ(join_secret({{2, shares[1]}, {3, shares[2]}}), secret);
}

TEST(Shamir, AnyThresholdOfThemGivesTheSecretAndFewerDoNot) {
  const std::string secret = random_bytes(64);
  for (const auto& [threshold, count] :
       {std::pair<std::size_t, std::size_t>{1, 1}, {3, 3}, {3, 4}, {5, 6}, {7, 10}, {67, 100}}) {
    const std::vector<std::string> shares =
        split_secret(secret, threshold, count, random_bytes((threshold - 1) * secret.size()));
    std::map<std::uint16_t, std::string> first;
    std::map<std::uint16_t, std::string> last;
    for (std::size_t i = 0; i < threshold; ++i) {
      first[static_cast<std::uint16_t>(i + 1)] = shares[i];
      last[static_cast<std::uint16_t>(count - i)] = shares[count - 1 - i];
    }
    EXPECT_EQ(join_secret(first), secret) << threshold << " of " << count;
    EXPECT_EQ(join_secret(last), secret) << threshold << " of " << count;
    if (threshold > 1) {
      first.erase(1);
      EXPECT_NE(join_secret(first), secret) << "one too few";
    }
  }
}

TEST(Shamir, SharesThatDoNotFitTogetherAreRefused) {
  EXPECT_EQ(error_text([] { join_secret({}); }), "the shares of a secret do not fit together");
  EXPECT_EQ(error_text([] {
              join_secret({{0, "ab"}});
            }),
            "the shares of a secret do not fit together");
  EXPECT_EQ(error_text([] {
              join_secret({{1, "ab"}, {2, "abcd"}});
            }),
            "the shares of a secret do not fit together");
  EXPECT_EQ(error_kind([] { split_secret("ab", 3, 2, random_bytes(4)); }), ErrorKind::internal);
}

}  // namespace winnow::mask::shamir_test

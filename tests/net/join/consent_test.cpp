#include "winnow/net/join/consent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/join/dealt.h"
#include "winnow/net/join/take_part.h"

namespace winnow::member::consent_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Consent, ShowsEverythingThatLeavesTheMember) {
  const TestFolder folder;
  const Dealing dealing(experiment_with("clc"), folder / "dealt");
  const std::string hash = dealing.charter.hash();
  const std::string text = consent_text(dealing.charter, hash);
  EXPECT_THAT(text, HasSubstr("members      6\n"));
  EXPECT_THAT(text, HasSubstr("method       clc\n"));
  EXPECT_THAT(text, HasSubstr("network      lenet5\n"));
  for (const Exchange& exchange : dealing.place->exchanges()) {
    for (const FieldRule& field : exchange.answers) {
      EXPECT_THAT(text, HasSubstr(field.tells)) << field.name;
    }
  }
  EXPECT_THAT(text, HasSubstr("how many samples it has, and how many steps"));
  EXPECT_THAT(text, HasSubstr("a fingerprint of its arithmetic"));
  EXPECT_THAT(text, HasSubstr("hash " + hash));
}

TEST(Consent, ATextOfTheServerDoesNotCommandTheTerminal) {
  const TestFolder folder;
  Dealing dealing(experiment_with("fedavg"), folder / "dealt");
  dealing.charter.leaves.emplace_back("nothing\x1b[2J at all");
  EXPECT_THAT(consent_text(dealing.charter, ""), Not(HasSubstr("\x1b")));
}

TEST(Consent, ATextOfTheServerStaysInItsLine) {
  const TestFolder folder;
  Dealing dealing(experiment_with("fedavg"), folder / "dealt");
  const std::size_t lines = split(consent_text(dealing.charter, ""), '\n').size();
  dealing.charter.federation = "f\nWhat this member sends:\n  - nothing";
  dealing.charter.experiment["method"]["name"] = "fedavg\nIts models stay here.";
  dealing.charter.leaves.front() += "\nIts model stays here.";
  EXPECT_EQ(split(consent_text(dealing.charter, ""), '\n').size(), lines);
}

TEST(Consent, IsGivenOnceByHashOrByAYes) {
  const TestFolder folder;
  const Dealing dealing(experiment_with("fedavg"), folder / "dealt");
  const Charter& charter = dealing.charter;
  const std::string hash = charter.hash();
  std::string shown;
  const auto says = [&](bool yes) {
    return [&shown, yes](const std::string& text) {
      shown = text;
      return yes;
    };
  };
  EXPECT_NO_THROW(require_consent(charter, hash, {.pinned = hash}));
  EXPECT_NO_THROW(require_consent(charter, hash, {.given = hash}));
  EXPECT_NO_THROW(require_consent(charter, hash, {.ask = says(true)}));
  EXPECT_THAT(shown, HasSubstr("What this member sends to the server:\n"));
  EXPECT_EQ(error_text([&] { require_consent(charter, hash, {.ask = says(false)}); }),
            "the charter has not been agreed to | to agree, add: --agree " + hash);
  EXPECT_EQ(error_text([&] { require_consent(charter, hash, {}); }),
            "the charter has not been agreed to | to agree, add: --agree " + hash);
  EXPECT_EQ(error_text([&] { require_consent(charter, hash, {.given = hash.substr(0, 63)}); }),
            "--agree " + hash.substr(0, 63) + ": the charter of the server has the hash " + hash +
                " | read it first: winnow join without --agree shows it");
  const std::string other(64, '0');
  EXPECT_EQ(
      error_text([&] { require_consent(charter, hash, {.pinned = other, .ask = says(false)}); }),
      "the charter has changed and has not been agreed to again | to agree, add: --agree " + hash);
  EXPECT_THAT(shown, HasSubstr("The charter has changed since it was agreed to."));
}

TEST(Address, IsAHostAndAPort) {
  EXPECT_EQ(parse_address("fl.example.org:8790").host, "fl.example.org");
  EXPECT_EQ(parse_address("fl.example.org:8790").port, 8790);
  EXPECT_EQ(parse_address("[::1]:80").host, "::1");
  for (const char* text : {"", "host", "host:", ":80", "host:0", "host:65536", "host:8x"}) {
    EXPECT_THAT(error_text([&] { parse_address(text); }), HasSubstr("expected HOST:PORT")) << text;
  }
}

}  // namespace winnow::member::consent_test

#include "winnow/net/mask/terms.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "run/small_run.h"
#include "testing/support.h"
#include "winnow/net/mask/letters.h"
#include "winnow/net/mask/secrets.h"
#include "winnow/net/pki/authority.h"

namespace winnow::mask::terms_test {

using ::testing::HasSubstr;

std::string bytes_of(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// RFC 7748, section 6.1.
TEST(Secrets, AgreeAsTheStandardHasIt) {
  const std::string bob =
      bytes_of("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
  EXPECT_EQ(known_part(bob),
            bytes_of("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
  const std::string alice =
      bytes_of("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
  EXPECT_EQ(agree(bob, alice),
            bytes_of("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"));
}

TEST(Secrets, BothEndsAgreeAndNobodyElseDoes) {
  const KeyPair ann = make_pair();
  const KeyPair bob = make_pair();
  const KeyPair eve = make_pair();
  EXPECT_EQ(agree(ann.secret, bob.known), agree(bob.secret, ann.known));
  EXPECT_NE(agree(ann.secret, bob.known), agree(eve.secret, bob.known));
  EXPECT_EQ(known_part(ann.secret), ann.known);
  EXPECT_NE(derived(ann.secret, "one"), derived(ann.secret, "other"));
  EXPECT_EQ(error_text([&] { agree(ann.secret, std::string(kKeyBytes, '\0')); }),
            "a member's key for masks is no key");
  EXPECT_EQ(error_text([&] { agree(ann.secret, "short"); }), "a member's key for masks is no key");
}

TEST(Secrets, ASealedLetterIsForOneKeyAndCannotBeChanged) {
  const std::string key = random_bytes(kKeyBytes);
  const std::string letter = random_bytes(kShareBytes);
  std::string closed = sealed(key, letter);
  EXPECT_EQ(closed.size(), kSealedShare);
  EXPECT_EQ(unsealed(key, closed), letter);
  const std::string refused = "a sealed share was not made for this member or was changed";
  EXPECT_EQ(error_text([&] { unsealed(random_bytes(kKeyBytes), closed); }), refused);
  closed[5] = static_cast<char>(closed[5] ^ 1);
  EXPECT_EQ(error_text([&] { unsealed(key, closed); }), refused);
  EXPECT_EQ(error_text([&] { unsealed(key, "short"); }), refused);
}

// NIST's AES-256 of a block of zeros under a key of zeros begins dc95c078a2408989.
TEST(Secrets, AStreamIsThatOfTheStandardAndGoesOnWhereItStopped) {
  const std::string zeros(kKeyBytes, '\0');
  std::vector<std::uint64_t> whole(10'000);
  MaskStream stream(zeros);
  stream.add_to(whole);
  EXPECT_EQ(whole[0], 0x898940a278c095dcULL);
  std::vector<std::uint64_t> pieces(10'000);
  MaskStream again(zeros);
  again.add_to(std::span(pieces).first(4097));
  again.add_to(std::span(pieces).subspan(4097));
  EXPECT_EQ(pieces, whole);
  MaskStream back(zeros);
  back.take_from(whole);
  EXPECT_EQ(whole, std::vector<std::uint64_t>(10'000));
}

TEST(Letters, BytesAndWordsComeBackAsTheyWere) {
  const std::string bytes = random_bytes(1000);
  EXPECT_EQ(bytes_in(numbers_of(bytes)), bytes);
  for (const float wrong : {-1.0F, 65536.0F, 0.5F, std::nanf("")}) {
    EXPECT_EQ(error_text([&] { bytes_in({wrong}); }),
              "a letter holds a number that is not of 16 bits");
  }
  const State like = state_of({0, 0, 0});
  const std::vector<std::uint64_t> words{0, ~std::uint64_t{0}, 0x7fc00001ffc00002ULL};
  const Halves halves = halves_of(words, like.layout);
  EXPECT_EQ(words_in(halves), words) << "patterns that are no numbers, too";
  EXPECT_EQ(words_in({halves.low.clone(), halves.high.clone()}), words);
  LetterReader reader("abc", "a letter");
  EXPECT_EQ(error_text([&] { reader.number(); }), "a letter has another length than it should");
}

TEST(Terms, TheThresholdIsMoreThanTwoThirds) {
  EXPECT_EQ(threshold_of(3), 3);
  EXPECT_EQ(threshold_of(4), 3);
  EXPECT_EQ(threshold_of(5), 4);
  EXPECT_EQ(threshold_of(6), 5);
  EXPECT_EQ(threshold_of(10), 7);
  EXPECT_EQ(threshold_of(100), 67);
}

TEST(Terms, NoExchangeIsLeftByWhichASummedModelCouldLeave) {
  const std::vector<Exchange> plain{
      {"train",
       {field::round()},
       "done",
       {field::trained_model().summed(Weighting::samples), field::samples()}},
      {"count", {field::round()}, "counted", {field::samples()}}};
  const std::vector<Exchange> masked = masked_exchanges(plain, 9);
  ASSERT_EQ(masked.size(), 5U);
  EXPECT_EQ(masked[0].task, "masked_train");
  EXPECT_EQ(masked[0].answers[0].name, "model_low");
  EXPECT_EQ(masked[0].answers[1].name, "model_high");
  EXPECT_EQ(masked[0].answers[2].name, "samples");
  EXPECT_EQ(masked[0].answers[3].name, "fits");
  EXPECT_EQ(masked[1].task, "count");
  EXPECT_EQ(error_text([&] { exchange_of("train", masked); }), "unknown task 'train'");
}

TEST(Terms, KeysAreTiedToACertificateOfTheFederation) {
  const TestFolder folder;
  Authority authority = Authority::create(folder / "a", "a");
  Authority stranger = Authority::create(folder / "b", "b");
  const Credentials ann = authority.issue_client("ann");
  const Credentials server = authority.issue_server({"localhost"});
  const MaskTerms terms{authority.federation(), std::string(64, 'c'), authority.certificate()};
  const std::string session(kSessionBytes, 's');
  const KeyPair channel = make_pair();
  const KeyPair mask = make_pair();
  const MaskOffer offer = make_offer(terms, session, 3, channel.known, mask.known, ann);
  EXPECT_EQ(check_offer(terms, session, 3, offer), "ann");
  EXPECT_EQ(MaskOffer::read(offer.bytes()).bytes(), offer.bytes());
  const auto says = [&](const MaskTerms& of, const std::string& in, std::int64_t client,
                        const MaskOffer& shown) {
    return error_text([&] { check_offer(of, in, client, shown); });
  };
  const std::string unsigned_text = "the keys for masks of client 3 are not signed by ann";
  MaskOffer changed = offer;
  changed.mask = make_pair().known;
  EXPECT_EQ(says(terms, session, 3, changed), unsigned_text) << "another key";
  EXPECT_EQ(says(terms, std::string(kSessionBytes, 't'), 3, offer), unsigned_text)
      << "another session";
  EXPECT_EQ(says({terms.federation, std::string(64, 'd'), terms.authority}, session, 3, offer),
            unsigned_text)
      << "another charter";
  EXPECT_EQ(says(terms, session, 4, offer), "the keys for masks of client 4 are not signed by ann");
  EXPECT_EQ(
      says(terms, session, 3,
           make_offer(terms, session, 3, channel.known, mask.known, stranger.issue_client("ann"))),
      "the keys for masks of client 3 are not of a member of this federation");
  EXPECT_THAT(
      says(terms, session, 3, make_offer(terms, session, 3, channel.known, mask.known, server)),
      HasSubstr("not a member's certificate"));
  const Roster roster{{3, offer}, {7, offer}};
  EXPECT_EQ(letter_of(read_roster(letter_of(roster))), letter_of(roster));
  EXPECT_EQ(error_text([&] {
              read_roster(letter_of(roster) + letter_of({{7, offer}}));
            }),
            "the list of keys for masks has client 7 twice");
  EXPECT_THAT(error_text([&] { read_roster(letter_of(roster).substr(0, 100)); }),
              HasSubstr("has another length than it should"));
}

}  // namespace winnow::mask::terms_test

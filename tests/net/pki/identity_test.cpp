#include "winnow/net/pki/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>

#include "net/pki/odd_certificates.h"
#include "run/small_run.h"
#include "testing/errors.h"
#include "winnow/base/sha256.h"
#include "winnow/net/pki/authority.h"
#include "winnow/net/pki/certificate.h"

namespace winnow::identity_test {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string refusal(const std::string& pem) {
  try {
    identity_of(pem);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::peer);
    return error.what();
  }
  return "accepted";
}

TEST(Identity, IsTheNameInTheCertificateAndItsFingerprint) {
  const TestFolder folder;
  Authority authority = Authority::create(folder / "authority", "Chest X-ray 2026");
  const Credentials member = authority.issue_client("hospital-a");
  const Identity identity = identity_of(member.certificate);
  EXPECT_EQ(identity.name, "hospital-a");
  EXPECT_EQ(identity.federation, authority.federation());
  EXPECT_EQ(identity.fingerprint.size(), 64U);
  const pki::Certificate parsed = pki::parse_certificate(member.certificate, {"it"});
  EXPECT_EQ(identity.fingerprint, sha256_hex(der_of(*parsed)));
}

TEST(Identity, NamesAreShortAndPlain) {
  for (const char* name : {"a", "hospital-a", "Site_7.north", "0"}) {
    EXPECT_TRUE(is_member_name(name)) << name;
  }
  EXPECT_TRUE(is_member_name(std::string(64, 'x')));
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("-rf"), std::string("a/b"),
        std::string("a b"), std::string("a\nb"), std::string("caf\xc3\xa9"), std::string("a\0b", 3),
        std::string(65, 'x')}) {
    EXPECT_FALSE(is_member_name(name)) << name;
  }
  EXPECT_EQ(error_text([] { check_member_name("a b"); }),
            "'a b' cannot be the name of a member | use letters, digits, '-', '_' and '.', at most "
            "64, beginning with a letter or a digit");
}

TEST(Identity, OfServersAndAuthoritiesThereIsNone) {
  const TestFolder folder;
  Authority authority = Authority::create(folder / "authority", "X");
  EXPECT_EQ(refusal(authority.issue_server({"localhost"}).certificate),
            "the peer has shown a server's certificate, not a member's certificate");
  EXPECT_EQ(refusal(authority.certificate()),
            "the peer has shown the certificate of an authority, not a member's certificate");
}

TEST(Identity, TextsThatAreNoCertificateAreRefused) {
  const TestFolder folder;
  Authority authority = Authority::create(folder / "authority", "X");
  const Credentials member = authority.issue_client("a");
  const std::string& pem = member.certificate;
  const std::string no_pem = "the peer's certificate is no certificate in PEM form";
  EXPECT_EQ(refusal(""), no_pem);
  EXPECT_EQ(refusal("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), no_pem);
  EXPECT_EQ(refusal(pem.substr(0, pem.size() / 2)), no_pem);
  EXPECT_EQ(refusal(member.key), no_pem);
  EXPECT_EQ(refusal(std::string(1000, '\0')), no_pem);
  EXPECT_EQ(refusal(pem + pem), "the peer's certificate has more than one certificate");
  EXPECT_EQ(refusal(std::string(70'000, 'A')),
            "the peer's certificate has 70000 bytes, more than the 65536 allowed");
}

TEST(Identity, NamesThatAreMalformedOrAmbiguousAreRefused) {
  const auto with = [](std::vector<std::string> uris) {
    Odd odd;
    odd.uris = std::move(uris);
    return refusal(odd_certificate(odd));
  };
  const std::string good = "winnow:" + kSomeFederation;
  EXPECT_EQ(refusal(odd_certificate({})), "accepted");
  EXPECT_EQ(with({good + "/a", "https://example.org"}), "accepted");
  const std::string nobody = "the peer's certificate names no member of a federation";
  EXPECT_EQ(with({}), nobody);
  EXPECT_EQ(with({good}), nobody);
  EXPECT_EQ(with({"https://example.org/a"}), nobody);
  const std::string twice = "the peer's certificate: it names more than one federation";
  EXPECT_EQ(with({good + "/a", good + "/b"}), twice);
  const std::string bad_name = "the peer's certificate: the name of the member in it is malformed";
  EXPECT_EQ(with({good + "/"}), bad_name);
  EXPECT_EQ(with({good + "/a/b"}), bad_name);
  EXPECT_EQ(with({good + "/.."}), bad_name);
  EXPECT_EQ(with({good + std::string("/a\0b", 4)}), bad_name);
  EXPECT_EQ(with({good + "/" + std::string(65, 'a')}), bad_name);
  const std::string bad_id = "the peer's certificate: the id of the federation in it is malformed";
  EXPECT_EQ(with({"winnow:"}), bad_id);
  EXPECT_EQ(with({"winnow:short/a"}), bad_id);
  EXPECT_EQ(with({"winnow:" + std::string(32, 'X') + "/a"}), bad_id);
}

TEST(Identity, OnlyCertificatesThatAreForClientsAloneCount) {
  const auto for_purpose = [](const std::string& purpose) {
    Odd odd;
    odd.purpose = purpose;
    return refusal(odd_certificate(odd));
  };
  EXPECT_EQ(for_purpose("serverAuth"),
            "the peer has shown a server's certificate, not a member's certificate");
  const std::string other =
      "the peer has shown a certificate for something else, not a member's certificate";
  EXPECT_EQ(for_purpose(""), other);
  EXPECT_EQ(for_purpose("clientAuth,serverAuth"), other);
  EXPECT_EQ(for_purpose("anyExtendedKeyUsage"), other);
}

// Otherwise a revoked member would give itself another fingerprint.
TEST(Identity, TheOtherFormOfASignatureIsRefused) {
  const TestFolder folder;
  Authority authority = Authority::create(folder / "authority", "X");
  const std::string pem = authority.issue_client("a").certificate;
  const std::string other = with_other_signature(pem);
  const pki::Certificate changed = pki::parse_certificate(other, {"it"});
  const pki::Certificate root = pki::parse_certificate(authority.certificate(), {"it"});
  EXPECT_EQ(pki::chain_fault(*changed, *root), X509_V_OK);
  EXPECT_NE(pki::facts_of(*changed, {"it"}).fingerprint, identity_of(pem).fingerprint);
  EXPECT_EQ(refusal(other),
            "the signature of the peer's certificate is not as authorities of Winnow make it");
}

TEST(Identity, NoChangedByteDoesHarm) {
  const TestFolder folder;
  Authority authority = Authority::create(folder / "authority", "X");
  const pki::Certificate certificate =
      pki::parse_certificate(authority.issue_client("hospital-a").certificate, {"it"});
  const std::string der = der_of(*certificate);
  for (std::size_t at = 0; at < der.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = der;
      changed[at] = static_cast<char>(changed[at] ^ change);
      const pki::Bio bio(BIO_new(BIO_s_mem()));
      PEM_write_bio(bio.get(), PEM_STRING_X509, "",
                    reinterpret_cast<const unsigned char*>(changed.data()),
                    static_cast<long>(changed.size()));
      char* bytes = nullptr;
      const long size = BIO_get_mem_data(bio.get(), &bytes);
      EXPECT_THAT(refusal(std::string(bytes, static_cast<std::size_t>(size))),
                  testing::AnyOf(StartsWith("the "), "accepted"));
    }
  }
}

TEST(Identity, LeavesNoErrorsInTheListThatGrpcReads) {
  ERR_clear_error();
  refusal("nonsense");
  EXPECT_EQ(ERR_peek_error(), 0U);
}

}  // namespace winnow::identity_test

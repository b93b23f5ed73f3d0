#include "winnow/net/pki/authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <set>

#include "net/pki/odd_certificates.h"
#include "run/small_run.h"
#include "testing/errors.h"
#include "winnow/net/pki/certificate.h"
#include "winnow/net/pki/identity.h"
#include "winnow/net/pki/revocations.h"

namespace winnow::authority_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

constexpr std::int64_t kDay = 86400;

int mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return static_cast<int>(status.st_mode & 0777);
}

pki::Certificate parsed(const std::string& pem) {
  return pki::parse_certificate(pem, {"it"});
}
pki::Facts facts(const std::string& pem) {
  return pki::facts_of(*parsed(pem), {"it"});
}

class AuthorityTest : public testing::Test {
 protected:
  TestFolder folder_;
  Authority authority_ = Authority::create(folder_ / "authority", "Chest X-ray 2026");
};

TEST_F(AuthorityTest, HasAKeyThatOnlyItsOwnerMayRead) {
  EXPECT_EQ(mode_of(folder_ / "authority/authority.key"), 0600);
  const Authority again = Authority::open(folder_ / "authority");
  EXPECT_EQ(again.federation(), authority_.federation());
  EXPECT_EQ(again.title(), "Chest X-ray 2026");
  EXPECT_EQ(authority_.federation().size(), 32U);
  fs::permissions(folder_ / "authority/authority.key", fs::perms(0640));
  const std::string key = (folder_ / "authority/authority.key").string();
  EXPECT_EQ(error_text([&] { Authority::open(folder_ / "authority"); }),
            key + " is a private key that others may read | chmod 600 " + key);
}

TEST_F(AuthorityTest, IsNeverOverwrittenAndNamesWhatIsNone) {
  const std::string place = (folder_ / "authority").string();
  EXPECT_EQ(error_text([&] { Authority::create(place, "X"); }),
            place + " already exists | choose a new folder: an authority is never overwritten");
  EXPECT_EQ(error_text([&] { Authority::create(place + "/", "X"); }),
            place + "/ already exists | choose a new folder: an authority is never overwritten");
  EXPECT_EQ(error_text([&] { Authority::open(folder_.path()); }),
            folder_.path().string() +
                " is not an authority's folder | 'winnow pki init DIR --name TITLE' makes one");
  EXPECT_NO_THROW(Authority::create(folder_ / "deep/down/", "X"));
}

TEST_F(AuthorityTest, TitlesAndDaysMustMakeSense) {
  const auto made = [&](const std::string& title, std::int64_t days) {
    return error_text([&] { Authority::create(folder_ / "other", title, days); });
  };
  EXPECT_THAT(made("", 1), StartsWith("'' cannot be the title of a federation | "));
  EXPECT_THAT(made("a\nb", 1), HasSubstr("cannot be the title"));
  EXPECT_THAT(made(std::string(65, 'x'), 1), HasSubstr("cannot be the title"));
  EXPECT_EQ(made("X", 0), "a certificate cannot be valid for 0 days | expected 1 to 36500");
  EXPECT_EQ(made("X", 36501), "a certificate cannot be valid for 36501 days | expected 1 to 36500");
  EXPECT_FALSE(fs::exists(folder_ / "other"));
  EXPECT_EQ(made("R\xc3\xb6ntgen", 36500), "no error");
}

TEST_F(AuthorityTest, TwoOfTheSameTitleAreTwoFederations) {
  Authority other = Authority::create(folder_ / "other", "Chest X-ray 2026");
  EXPECT_NE(other.federation(), authority_.federation());
  const pki::Certificate member = parsed(authority_.issue_client("a").certificate);
  EXPECT_EQ(pki::chain_fault(*member, *parsed(authority_.certificate())), X509_V_OK);
  EXPECT_NE(pki::chain_fault(*member, *parsed(other.certificate())), X509_V_OK);
}

TEST_F(AuthorityTest, MembersAndServersCannotTakeEachOthersPlace) {
  const pki::Certificate member = parsed(authority_.issue_client("a").certificate);
  const pki::Certificate server = parsed(authority_.issue_server({"localhost"}).certificate);
  const pki::Certificate root = parsed(authority_.certificate());
  EXPECT_EQ(pki::chain_fault(*member, *root, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
  EXPECT_EQ(pki::chain_fault(*server, *root, X509_PURPOSE_SSL_SERVER), X509_V_OK);
  EXPECT_EQ(pki::chain_fault(*member, *root, X509_PURPOSE_SSL_SERVER), X509_V_ERR_INVALID_PURPOSE);
  EXPECT_EQ(pki::chain_fault(*server, *root, X509_PURPOSE_SSL_CLIENT), X509_V_ERR_INVALID_PURPOSE);
}

TEST_F(AuthorityTest, CertificatesSayWhatTheyAreFor) {
  const std::string pem = authority_.issue_client("hospital-a", 30).certificate;
  const pki::Facts member = facts(pem);
  EXPECT_EQ(member.kind, pki::CertificateKind::client);
  EXPECT_EQ(member.title, "hospital-a");
  EXPECT_EQ(member.name, "hospital-a");
  EXPECT_EQ(member.federation, authority_.federation());
  EXPECT_LT(member.begins, pki::seconds_now() - 60);
  EXPECT_NEAR(static_cast<double>(member.expires - pki::seconds_now()), 30.0 * kDay, 60);
  const pki::Facts server =
      facts(authority_.issue_server({"fl.example.org", "192.0.2.7", "::1"}).certificate);
  EXPECT_EQ(server.kind, pki::CertificateKind::server);
  EXPECT_THAT(server.hosts, ElementsAre("fl.example.org", "192.0.2.7", "::1"));
  EXPECT_EQ(server.federation, authority_.federation());
  EXPECT_EQ(server.name, "");
  const pki::Certificate parts = parsed(pem);
  EXPECT_EQ(X509_get_key_usage(parts.get()), static_cast<std::uint32_t>(KU_DIGITAL_SIGNATURE));
  EXPECT_EQ(X509_get_signature_nid(parts.get()), NID_ecdsa_with_SHA256);
  EXPECT_NE(X509_get0_subject_key_id(parts.get()), nullptr);
  EXPECT_NE(X509_get0_authority_key_id(parts.get()), nullptr);
  EXPECT_EQ(X509_check_ca(parts.get()), 0);
  const pki::Certificate root = parsed(authority_.certificate());
  EXPECT_EQ(X509_get_key_usage(root.get()),
            static_cast<std::uint32_t>(KU_KEY_CERT_SIGN | KU_CRL_SIGN));
  EXPECT_EQ(X509_get_pathlen(root.get()), 0);
}

TEST_F(AuthorityTest, SerialNumbersAndKeysAreNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 20; ++i) {
    const Credentials made = authority_.issue_client("member-" + std::to_string(i));
    const pki::Certificate certificate = parsed(made.certificate);
    BIGNUM* number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate.get()), nullptr);
    EXPECT_EQ(BN_num_bits(number), 127);
    char* text = BN_bn2hex(number);
    EXPECT_TRUE(seen.insert(text).second);
    EXPECT_TRUE(seen.insert(made.key).second);
    OPENSSL_free(text);
    BN_free(number);
  }
}

TEST_F(AuthorityTest, NoCertificateOutlivesItsAuthority) {
  Authority brief = Authority::create(folder_ / "brief", "X", 10);
  const std::int64_t own = facts(brief.certificate()).expires;
  EXPECT_EQ(facts(brief.issue_client("a", 365).certificate).expires, own);
  EXPECT_LT(facts(brief.issue_server({"localhost"}, 3).certificate).expires, own);
  const std::int64_t now = pki::seconds_now();
  Authority past = Authority::create(folder_ / "past", "X", Validity{now - 2 * kDay, now - kDay});
  EXPECT_THAT(error_text([&] { past.issue_client("a"); }),
              StartsWith("the authority itself expired on "));
  EXPECT_EQ(error_text([&] {
              authority_.issue_client("b", Validity{now, now});
            }),
            "a certificate must expire after it begins");
}

TEST_F(AuthorityTest, HostsAreNamesOrAddresses) {
  const auto made = [&](const std::vector<std::string>& hosts) {
    return error_text([&] { authority_.issue_server(hosts); });
  };
  for (const char* host : {"", "a b", "example.org:8443", "*.example.org", "-a", "a..b",
                           "a,DNS:evil.example", "https://a", "a\nb"}) {
    EXPECT_THAT(made({host}), HasSubstr("is neither a host name nor an IP address | ")) << host;
  }
  EXPECT_EQ(made({}), "a server's certificate is for 1 to 100 hosts");
  EXPECT_EQ(made(std::vector<std::string>(101, "a")),
            "a server's certificate is for 1 to 100 hosts");
  EXPECT_EQ(made({std::string(63, 'a') + "." + std::string(63, 'b')}), "no error");
}

TEST_F(AuthorityTest, ANameIsSignedOnceUnlessReplacedAndThenTheEarlierOneIsRevoked) {
  const Identity first = identity_of(authority_.issue_client("a").certificate);
  EXPECT_EQ(error_text([&] { authority_.issue_client("a"); }),
            "a already has a certificate | --replace makes a new one and revokes the old one");
  EXPECT_EQ(error_text([&] { authority_.sign(make_request("a").request); }),
            "a already has a certificate | --replace makes a new one and revokes the old one");
  const Identity second = identity_of(authority_.issue_client("a", 10, Replace::yes).certificate);
  Revocations revoked(authority_.revoked_file());
  EXPECT_TRUE(revoked.contains(first.fingerprint));
  EXPECT_FALSE(revoked.contains(second.fingerprint));
}

TEST_F(AuthorityTest, ListsWhatItHasSigned) {
  authority_.issue_client("b");
  authority_.issue_client("a");
  authority_.issue_server({"fl.example.org", "localhost"});
  EXPECT_TRUE(authority_.revoke("b"));
  EXPECT_FALSE(authority_.revoke("b"));
  const std::vector<Issued> all = Authority::open(folder_ / "authority").issued();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "a");
  EXPECT_FALSE(all[0].revoked);
  EXPECT_EQ(all[1].name, "b");
  EXPECT_TRUE(all[1].revoked);
  EXPECT_EQ(all[2].name, "fl.example.org");
  EXPECT_TRUE(all[2].server);
  EXPECT_EQ(read_file(authority_.revoked_file()), all[1].fingerprint + " # b\n");
}

TEST_F(AuthorityTest, RevokesOnlyMembersItKnows) {
  authority_.issue_server({"fl.example.org"});
  EXPECT_EQ(error_text([&] { authority_.revoke("nobody"); }),
            "there is no certificate for 'nobody' | 'winnow pki list' shows all");
  EXPECT_EQ(error_text([&] { authority_.revoke("../../authority"); }),
            "there is no certificate for '../../authority' | 'winnow pki list' shows all");
  EXPECT_EQ(error_text([&] { authority_.revoke("fl.example.org"); }),
            "fl.example.org is a server: members look up no revocations | if its key is stolen, "
            "make a new authority with 'winnow pki init'");
}

TEST_F(AuthorityTest, AppendsToALineThatAnEditorLeftOpen) {
  const Identity a = identity_of(authority_.issue_client("a").certificate);
  write_file_whole(authority_.revoked_file(), "# by hand");
  EXPECT_TRUE(authority_.revoke("a"));
  EXPECT_EQ(read_file(authority_.revoked_file()), "# by hand\n" + a.fingerprint + " # a\n");
}

// ---- requests

TEST_F(AuthorityTest, SignsWhatAMemberRequestsWithoutSeeingItsKey) {
  const KeyAndRequest made = make_request("hospital-a");
  const RequestedName who = read_request(made.request);
  EXPECT_EQ(who.name, "hospital-a");
  EXPECT_EQ(who.key_digest.size(), 64U);
  const std::string pem = authority_.sign(made.request);
  EXPECT_EQ(identity_of(pem).name, "hospital-a");
  const pki::Key key = pki::parse_key(made.key, {"it"});
  EXPECT_TRUE(pki::key_fits(*parsed(pem), *key));
  EXPECT_EQ(who.key_digest, pki::digest_of(*key));
}

TEST_F(AuthorityTest, TakesNothingButNameAndKeyFromARequest) {
  const pki::Key key = pki::make_key();
  const std::string pem = authority_.sign(odd_request("hospital-a", *key, "critical,CA:TRUE"));
  EXPECT_EQ(facts(pem).kind, pki::CertificateKind::client);
  EXPECT_EQ(X509_check_ca(parsed(pem).get()), 0);
}

TEST_F(AuthorityTest, RefusesRequestsThatAreDamagedOrNotSignedByTheirKey) {
  const auto said = [](const std::string& request) {
    return error_text([&] { read_request(request); });
  };
  EXPECT_EQ(said(""), "the request is no request for a certificate in PEM form");
  EXPECT_EQ(said(authority_.certificate()),
            "the request is no request for a certificate in PEM form | it is a certificate");
  EXPECT_EQ(said(std::string(65'537, 'x')),
            "the request has 65537 bytes, more than the 65536 allowed");
  // Of two requests, the key of one and the signature of the other.
  const pki::Key key = pki::make_key();
  const pki::Request request = pki::parse_request(make_request("a").request, {"it"});
  X509_REQ_set_pubkey(request.get(), key.get());
  EXPECT_EQ(said(pki::pem_of(*request)),
            "the request is not signed by its own key | it was changed on the way, or its sender "
            "does not have the key");
}

TEST_F(AuthorityTest, RefusesRequestsForNamesThatCannotBe) {
  const pki::Key key = pki::make_key();
  for (const std::string& name : {std::string("../a"), std::string("a b"), std::string("a\0b", 3),
                                  std::string("caf\xc3\xa9"), std::string(".hidden")}) {
    EXPECT_THAT(error_text([&] { authority_.sign(odd_request(name, *key)); }),
                HasSubstr("which cannot be that of a member | names have letters"));
  }
  EXPECT_THAT(error_text([] { make_request("a/b"); }), HasSubstr("cannot be the name of a member"));
}

TEST_F(AuthorityTest, RefusesKeysThatAreWeakOrUnusual) {
  const auto said = [&](EVP_PKEY* made) {
    const pki::Key key(made);
    return error_text([&] { authority_.sign(odd_request("a", *key)); });
  };
  const std::string refused =
      "the key in the request is of a kind that is not accepted | use 'winnow pki request', or EC "
      "P-256, P-384, P-521 or RSA with 2048 to 8192 bits";
  EXPECT_EQ(said(EVP_RSA_gen(1024U)), refused);
  EXPECT_EQ(said(EVP_EC_gen("secp224r1")), refused);
  EXPECT_EQ(said(EVP_EC_gen("secp256k1")), refused);
  EXPECT_EQ(said(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")), refused);
  EXPECT_EQ(said(EVP_EC_gen("P-384")), "no error");
  const pki::Key rsa(EVP_RSA_gen(2048U));
  EXPECT_EQ(error_text([&] { authority_.sign(odd_request("b", *rsa)); }), "no error");
}

// ---- credentials

TEST_F(AuthorityTest, CredentialsAreReadAndChecked) {
  const Credentials a = authority_.issue_client("a");
  const Credentials b = authority_.issue_client("b");
  const fs::path certificate = folder_ / "a.pem";
  const fs::path key = folder_ / "a.key";
  const fs::path root = folder_ / "authority.pem";
  write_file_whole(certificate, a.certificate);
  write_secret(key, a.key);
  write_file_whole(root, a.authority);
  const Credentials read = read_credentials(certificate, key, root);
  EXPECT_EQ(read.key, a.key);
  const Certified certified = read_certificate(read.certificate);
  EXPECT_EQ(certified.name, "a");
  EXPECT_EQ(certified.federation, authority_.federation());
  EXPECT_GT(certified.expires, pki::seconds_now());
  EXPECT_EQ(read_certificate(a.authority).name, "Chest X-ray 2026");
  EXPECT_EQ(read_certificate(authority_.issue_server({"localhost"}).certificate).name, "localhost");

  const auto said = [&] { return error_text([&] { read_credentials(certificate, key, root); }); };
  const auto path = [&](const char* name) { return (folder_ / name).string(); };
  EXPECT_EQ(error_text([&] { read_credentials(folder_ / "none.pem", key, root); }),
            "cannot read " + path("none.pem") + ": no such file");
  fs::permissions(key, fs::perms(0604));
  EXPECT_EQ(said(),
            path("a.key") + " is a private key that others may read | chmod 600 " + path("a.key"));
  fs::permissions(key, fs::perms(0600));
  write_file_whole(certificate, b.certificate);
  EXPECT_EQ(said(),
            "the key " + path("a.key") + " does not belong to the certificate " + path("a.pem"));
  write_file_whole(certificate, make_request("a").request);
  EXPECT_EQ(said(), path("a.pem") +
                        " is no certificate in PEM form | it is a request: the operator turns it "
                        "into a certificate with 'winnow pki sign'");
  write_file_whole(certificate, std::string(70'000, 'x'));
  EXPECT_THAT(said(), HasSubstr("it has 70000 bytes, more than the 65536 allowed"));
  write_file_whole(certificate, a.certificate);
  write_file_whole(root, Authority::create(folder_ / "other", "X").certificate());
  EXPECT_EQ(said(), path("a.pem") + " is not signed by the authority " + path("authority.pem") +
                        ": it is of another federation");
  write_file_whole(root, b.certificate);
  EXPECT_EQ(said(), path("authority.pem") +
                        " is not the certificate of a federation's authority | the operator has it "
                        "as authority.pem");
}

TEST_F(AuthorityTest, KeysAreNeitherOverwrittenNorAskedAPassphraseFor) {
  const fs::path key = folder_ / "key";
  write_secret(key, "one");
  EXPECT_EQ(mode_of(key), 0600);
  EXPECT_EQ(error_text([&] { write_secret(key, "two"); }),
            key.string() +
                " already exists, and keys are never overwritten | choose another "
                "folder, or move the file away");
  EXPECT_EQ(read_file(key), "one");
  const std::string encrypted =
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
  EXPECT_EQ(error_text([&] { pki::parse_key(encrypted, {"a.key"}); }),
            "a.key is encrypted with a passphrase | Winnow reads only keys without one; protect "
            "the file by its permissions");
}

}  // namespace winnow::authority_test

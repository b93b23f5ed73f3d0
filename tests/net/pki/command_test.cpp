#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <sstream>

#include "net/pki/odd_certificates.h"
#include "run/small_run.h"
#include "winnow/cli/cli.h"
#include "winnow/experiment/registry.h"
#include "winnow/net/pki/authority.h"
#include "winnow/net/pki/commands.h"
#include "winnow/net/pki/identity.h"
#include "winnow/net/pki/revocations.h"

namespace winnow::pki_command_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

struct Answer {
  int code = -1;
  std::string out;
  std::string err;
};

Answer call(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"winnow", "pki"};
  for (const std::string& word : words) {
    argv.push_back(word.c_str());
  }
  const int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  static const Registry registry = builtin_registry();
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Answer answer;
  answer.code = run_program(argc, argv.data(), registry, local_engines(), {add_pki_command});
  std::fflush(stdout);
  answer.out = testing::internal::GetCapturedStdout();
  answer.err = testing::internal::GetCapturedStderr();
  return answer;
}

int permissions_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return static_cast<int>(status.st_mode & 0777);
}

class PkiCommand : public testing::Test {
 protected:
  void SetUp() override {
    const Answer made = call({"init", authority_, "--name", "Chest X-ray 2026"});
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_THAT(made.out, AllOf(StartsWith("authority of 'Chest X-ray 2026' in "),
                                ContainsRegex("federation [0-9a-f]+, until 20")));
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  TestFolder folder_;
  std::string authority_ = (folder_ / "authority").string();
};

TEST_F(PkiCommand, FromARequestToACertificate) {
  const Answer request = call({"request", "hospital-a", "--out", at("member")});
  ASSERT_EQ(request.code, 0) << request.err;
  EXPECT_THAT(request.out, HasSubstr("for the member hospital-a\n"));
  EXPECT_EQ(permissions_of(at("member/hospital-a.key")), 0600);
  const std::string digest = request.out.substr(request.out.rfind(' ') + 1);
  const Answer sign = call({"sign", at("member/hospital-a.csr"), "--authority", authority_, "--out",
                            at("member/hospital-a.pem"), "--days", "30"});
  ASSERT_EQ(sign.code, 0) << sign.err;
  EXPECT_THAT(sign.out,
              HasSubstr("member hospital-a of 'Chest X-ray 2026'\nkey with the digest " + digest));
  EXPECT_EQ(identity_of(read_file(at("member/hospital-a.pem"))).name, "hospital-a");
  EXPECT_NO_THROW(read_credentials(at("member/hospital-a.pem"), at("member/hospital-a.key"),
                                   authority_ + "/authority.pem"));
}

TEST_F(PkiCommand, SignsANameOnce) {
  ASSERT_EQ(call({"request", "a", "--out", at("one")}).code, 0);
  ASSERT_EQ(call({"request", "a", "--out", at("two")}).code, 0);
  const auto sign = [&](const std::string& request, const std::string& out, bool replace) {
    std::vector<std::string> words{"sign",     at(request), "--authority",
                                   authority_, "--out",     at(out)};
    if (replace) {
      words.emplace_back("--replace");
    }
    return call(words);
  };
  EXPECT_EQ(sign("one/a.csr", "one.pem", false).code, 0);
  const Answer again = sign("two/a.csr", "two.pem", false);
  EXPECT_EQ(again.code, 2);
  EXPECT_EQ(again.err,
            "winnow: a already has a certificate\n"
            "  --replace makes a new one and revokes the old one\n");
  EXPECT_FALSE(fs::exists(at("two.pem")));
  EXPECT_EQ(sign("two/a.csr", "one.pem", false).code, 2);  // the file is there
  const std::string first = read_file(at("one.pem"));
  EXPECT_EQ(sign("two/a.csr", "one.pem", true).code, 0);
  EXPECT_NE(read_file(at("one.pem")), first);
  EXPECT_TRUE(Revocations(authority_ + "/revoked.txt").contains(identity_of(first).fingerprint));
}

TEST_F(PkiCommand, RefusesRequestsThatAreNone) {
  const auto sign = [&](const std::string& file) {
    return call({"sign", at(file), "--authority", authority_, "--out", at("out.pem")});
  };
  EXPECT_EQ(sign("none.csr").code, 5);
  write_file_whole(at("bad.csr"), "nonsense");
  const Answer bad = sign("bad.csr");
  EXPECT_EQ(bad.code, 6);
  EXPECT_EQ(bad.err, "winnow: the request is no request for a certificate in PEM form\n");
  write_file_whole(at("large.csr"), std::string(100'000, 'x'));
  EXPECT_THAT(sign("large.csr").err, HasSubstr("it has 100000 bytes, more than the 65536 allowed"));
  EXPECT_FALSE(fs::exists(at("out.pem")));
}

TEST_F(PkiCommand, IssuesBothKinds) {
  const Answer client =
      call({"issue", "client", "hospital-a", "--authority", authority_, "--out", at("a")});
  ASSERT_EQ(client.code, 0) << client.err;
  EXPECT_THAT(client.out, StartsWith("certificate and key of the member hospital-a in "));
  EXPECT_EQ(permissions_of(at("a/hospital-a.key")), 0600);
  const Answer server = call({"issue", "server", "fl.example.org", "192.0.2.7", "--authority",
                              authority_, "--out", at("server")});
  ASSERT_EQ(server.code, 0) << server.err;
  EXPECT_THAT(server.out,
              StartsWith("certificate and key of the server for fl.example.org, 192.0.2.7 in "));
  EXPECT_EQ(permissions_of(at("server/server.key")), 0600);
  EXPECT_NO_THROW(read_credentials(at("server/server.pem"), at("server/server.key"),
                                   at("server/authority.pem")));
  // Never over a key that is there.
  const Answer again =
      call({"issue", "server", "localhost", "--authority", authority_, "--out", at("server")});
  EXPECT_EQ(again.code, 2);
  EXPECT_EQ(again.err, "winnow: " + at("server/server.key") +
                           " already exists\n  choose another place, or move the file away\n");
  // Nor beside another federation's.
  ASSERT_EQ(call({"init", at("other"), "--name", "Other"}).code, 0);
  const Answer mixed =
      call({"issue", "client", "b", "--authority", at("other"), "--out", at("server")});
  EXPECT_EQ(mixed.err, "winnow: " + at("server/authority.pem") +
                           " is that of another federation\n  choose another folder\n");
}

TEST_F(PkiCommand, IssuesForSeveralMembersInOneStart) {
  const auto issue = [&](const std::vector<std::string>& names, bool replace = false) {
    std::vector<std::string> words{"issue", "client", "--authority", authority_, "--out", at("m")};
    words.insert(words.end(), names.begin(), names.end());
    if (replace) {
      words.emplace_back("--replace");
    }
    return call(words);
  };
  const Answer made = issue({"a", "b", "c"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, ContainsRegex("^certificate and key of the member a in .*\n"
                                      "certificate and key of the member b in .*\n"
                                      "certificate and key of the member c in .*\n$"));
  for (const std::string name : {"a", "b", "c"}) {
    EXPECT_EQ(identity_of(read_file(at("m/" + name + ".pem"))).name, name);
    EXPECT_NO_THROW(read_credentials(at("m/" + name + ".pem"), at("m/" + name + ".key"),
                                     at("m/authority.pem")));
  }
  // All or nobody: where one of them cannot be, the others have no certificate either.
  EXPECT_EQ(issue({"d", "b"}).err,
            "winnow: b already has a certificate\n"
            "  --replace makes a new one and revokes the old one\n");
  EXPECT_EQ(issue({"d", "e/f"}).code, 2);
  EXPECT_EQ(issue({"d", "d"}).err, "winnow: d is named twice\n");
  write_file_whole(at("m/g.pem"), "somebody's");
  EXPECT_EQ(issue({"d", "g"}).err, "winnow: " + at("m/g.pem") +
                                       " already exists\n"
                                       "  choose another place, or move the file away\n");
  EXPECT_FALSE(fs::exists(at("m/d.pem")));
  EXPECT_EQ(Authority::open(authority_).issued().size(), 3U);
}

TEST_F(PkiCommand, RevokesAndLists) {
  ASSERT_EQ(call({"issue", "client", "a", "--authority", authority_, "--out", at("m")}).code, 0);
  ASSERT_EQ(call({"issue", "client", "b", "--authority", authority_, "--out", at("m")}).code, 0);
  ASSERT_EQ(
      call({"issue", "server", "localhost", "--authority", authority_, "--out", at("m")}).code, 0);
  EXPECT_EQ(call({"revoke", "a", "--authority", authority_}).out,
            "the certificate of a is now revoked, in " + authority_ + "/revoked.txt\n");
  EXPECT_EQ(call({"revoke", "a", "--authority", authority_}).out,
            "the certificate of a was already revoked, in " + authority_ + "/revoked.txt\n");
  const std::string table = call({"list", "--authority", authority_}).out;
  EXPECT_THAT(table, ContainsRegex("^name +kind +expires +revoked\n"
                                   "a +client +20[0-9-]+ [0-9:]+ UTC +yes\n"
                                   "b +client +20[0-9-]+ [0-9:]+ UTC +no\n"
                                   "localhost +server +20[0-9-]+ [0-9:]+ UTC +no\n$"));
  const Json list = Json::parse(call({"list", "--authority", authority_, "--json"}).out);
  EXPECT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0]["revoked"], true);
  EXPECT_EQ(list[2]["kind"], "server");
}

TEST_F(PkiCommand, ChecksACertificate) {
  ASSERT_EQ(call({"issue", "client", "a", "--authority", authority_, "--out", at("m")}).code, 0);
  ASSERT_EQ(call({"issue", "client", "b", "--authority", authority_, "--out", at("m")}).code, 0);
  const Answer fine =
      call({"check", at("m/a.pem"), "--key", at("m/a.key"), "--authority", at("m/authority.pem")});
  EXPECT_EQ(fine.code, 0) << fine.err;
  EXPECT_THAT(fine.out, ContainsRegex("^subject +a\nkind +a member's certificate\n"
                                      "federation +[0-9a-f]+\nmember +a\nbegins +20.* UTC\n"
                                      "expires +20.* UTC\nfingerprint +[0-9a-f]+\nthe key fits\n"
                                      "signed by the authority of 'Chest X-ray 2026'\n"
                                      "it is valid\n$"));
  EXPECT_EQ(call({"check", authority_ + "/authority.pem", "--authority", authority_}).code, 0);

  const auto said = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all{"check"};
    all.insert(all.end(), words.begin(), words.end());
    const Answer answer = call(all);
    EXPECT_EQ(answer.code, 6);
    return answer.err;
  };
  EXPECT_EQ(said({at("m/a.pem"), "--key", at("m/b.key")}),
            "winnow: the key " + at("m/b.key") + " does not belong to " + at("m/a.pem") + "\n");
  ASSERT_EQ(call({"init", at("other"), "--name", "Chest X-ray 2026"}).code, 0);
  EXPECT_THAT(said({at("m/a.pem"), "--authority", at("other")}),
              HasSubstr("a.pem is not signed by the authority " + at("other/authority.pem")));
  EXPECT_THAT(said({at("m/a.pem"), "--authority", at("m/b.pem")}),
              HasSubstr("b.pem is not the certificate of an authority"));
  fs::permissions(at("m/a.key"), fs::perms(0644));
  EXPECT_THAT(said({at("m/a.pem"), "--key", at("m/a.key")}),
              HasSubstr("a.key is a private key that others may read\n  chmod 600 "));
  EXPECT_THAT(said({at("m/b.key")}), HasSubstr("b.key is no certificate in PEM form\n  it is a "
                                               "private key: keep it to yourself\n"));
  const std::int64_t now = pki::seconds_now();
  Authority opened = Authority::open(authority_);
  write_file_whole(at("old.pem"),
                   opened.issue_client("old", Validity{now - 9, now - 5}).certificate);
  EXPECT_THAT(said({at("old.pem")}), HasSubstr("old.pem expired on "));
  write_file_whole(at("new.pem"),
                   opened.issue_client("new", Validity{now + 900, now + 999}).certificate);
  EXPECT_THAT(said({at("new.pem")}), HasSubstr("new.pem is not valid before "));
  Odd odd;
  odd.uris = {};
  write_file_whole(at("odd.pem"), odd_certificate(odd));
  EXPECT_THAT(said({at("odd.pem")}), HasSubstr("odd.pem is not of a federation of Winnow"));
}

TEST_F(PkiCommand, SaysWhatIsWrongWithTheCommandLine) {
  const Answer exists = call({"init", authority_, "--name", "X"});
  EXPECT_EQ(exists.code, 2);
  EXPECT_THAT(exists.err, HasSubstr("authority already exists\n  choose a new folder"));
  EXPECT_EQ(call({}).code, 2);
  EXPECT_EQ(call({"issue"}).code, 2);
  EXPECT_EQ(call({"init", at("x")}).code, 2);
  EXPECT_EQ(call({"init", at("x"), "--name", "X", "--days", "0"}).code, 2);
  EXPECT_EQ(call({"request", "a/b", "--out", at("x")}).code, 2);
  EXPECT_EQ(call({"list", "--authority", at("none")}).code, 5);
  EXPECT_FALSE(fs::exists(at("x")));
}

TEST_F(PkiCommand, EveryPartHasHelpWithAnExample) {
  constexpr std::size_t kWidest = 100;
  const std::vector<std::vector<std::string>> parts{
      {},         {"init"}, {"request"}, {"sign"},           {"issue"}, {"issue", "client"},
      {"revoke"}, {"list"}, {"check"},   {"issue", "server"}};
  for (std::vector<std::string> words : parts) {
    std::string name = "winnow pki";
    for (const std::string& word : words) {
      name += " " + word;
    }
    words.emplace_back("--help");
    const Answer help = call(words);
    EXPECT_EQ(help.code, 0) << name;
    EXPECT_THAT(help.out, HasSubstr("Example:  " + name)) << name;
    for (const char* word : {"INT", "REQUIRED", "TEXT:"}) {
      EXPECT_THAT(help.out, testing::Not(HasSubstr(word))) << name;
    }
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), kWidest) << line;
    }
  }
}

}  // namespace winnow::pki_command_test

#include "winnow/net/pki/doctor.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <thread>

#include "net/pki/odd_certificates.h"
#include "run/small_run.h"
#include "winnow/net/pki/authority.h"
#include "winnow/net/pki/openssl.h"

namespace winnow::doctor_test {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kBriefly = std::chrono::milliseconds(300);
constexpr std::int64_t kDay = 86400;

// A port of this machine, freed when the object goes.
class Port {
 public:
  explicit Port(int backlog = 16) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    number_ = ntohs(address.sin_port);
    if (backlog >= 0) {
      EXPECT_EQ(::listen(socket_, backlog), 0);
    }
  }
  ~Port() { ::close(socket_); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  std::uint16_t number() const { return number_; }
  int socket() const { return socket_; }

 private:
  int socket_;
  std::uint16_t number_ = 0;
};

// How a server behaves.
struct Manners {
  bool http2 = true;        // else it speaks TLS without it
  bool asks = true;         // for a certificate
  bool old = false;         // TLS 1.2
  bool says_why = true;     // when it refuses a certificate; gRPC's does not
  bool silent = false;      // says nothing after the handshake
  bool waits = false;       // until it has the client's preface
  int opinion = X509_V_OK;  // of any certificate, in place of its own findings
};

// A server of one thread, written with OpenSSL alone.
class Server {
 public:
  Server(const Credentials& own, const std::string& trusted, Manners manners = {})
      : manners_(manners), context_(SSL_CTX_new(TLS_server_method())) {
    std::signal(SIGPIPE, SIG_IGN);
    const pki::Certificate certificate = pki::parse_certificate(own.certificate, {"own"});
    const pki::Key key = pki::parse_key(own.key, {"own"});
    const pki::Certificate root = pki::parse_certificate(trusted, {"root"});
    EXPECT_EQ(SSL_CTX_use_certificate(context_, certificate.get()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context_, key.get()), 1);
    EXPECT_EQ(X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), root.get()), 1);
    if (manners_.old) {
      SSL_CTX_set_max_proto_version(context_, TLS1_2_VERSION);
    }
    SSL_CTX_set_app_data(context_, &manners_);
    if (manners_.asks) {
      SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, judge);
    }
    if (manners_.http2) {
      SSL_CTX_set_alpn_select_cb(context_, choose_http2, nullptr);
    }
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    ::shutdown(port_.socket(), SHUT_RDWR);
    thread_.join();
    SSL_CTX_free(context_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const { return port_.number(); }

 private:
  static int choose_http2(SSL* /*tls*/, const unsigned char** chosen, unsigned char* size,
                          const unsigned char* offered, unsigned offered_size, void* /*data*/) {
    static const unsigned char kName[] = {'h', '2'};
    if (offered_size < 3 || offered[1] != 'h' || offered[2] != '2') {
      return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *chosen = kName;
    *size = 2;
    return SSL_TLSEXT_ERR_OK;
  }

  static int judge(int fine, X509_STORE_CTX* context) {
    auto* tls = static_cast<SSL*>(
        X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()));
    const auto* manners = static_cast<const Manners*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(tls)));
    if (manners->opinion != X509_V_OK) {
      X509_STORE_CTX_set_error(context, manners->opinion);
      fine = 0;
    }
    if (fine == 0 && !manners->says_why) {
      ::shutdown(SSL_get_fd(tls), SHUT_RDWR);
    }
    return fine;
  }

  void serve() {
    for (;;) {
      const int socket = ::accept(port_.socket(), nullptr, nullptr);
      if (socket < 0) {
        return;
      }
      SSL* tls = SSL_new(context_);
      SSL_set_fd(tls, socket);
      if (SSL_accept(tls) == 1) {
        std::string heard(33, '\0');
        if (manners_.silent || manners_.waits) {
          SSL_read(tls, heard.data(), static_cast<int>(heard.size()));
        }
        if (!manners_.silent) {
          const std::string_view settings("\0\0\0\4\0\0\0\0\0", 9);
          const std::string_view other = "HTTP/1.1 400 Bad Request\r\n";
          const std::string_view said = manners_.http2 ? settings : other;
          SSL_write(tls, said.data(), static_cast<int>(said.size()));
        } else {
          SSL_read(tls, heard.data(), static_cast<int>(heard.size()));  // until the peer goes
        }
        SSL_shutdown(tls);
      }
      SSL_free(tls);
      ::close(socket);
    }
  }

  Manners manners_;
  SSL_CTX* context_;
  Port port_;
  std::thread thread_;
};

// Answers every connection with the same bytes, then closes it.
class PlainServer {
 public:
  explicit PlainServer(std::string answer) : answer_(std::move(answer)) {
    thread_ = std::thread([this] {
      for (int socket = 0; (socket = ::accept(port_.socket(), nullptr, nullptr)) >= 0;) {
        char heard[2048];
        EXPECT_GT(::recv(socket, heard, sizeof heard, 0), 0);
        ::send(socket, answer_.data(), answer_.size(), MSG_NOSIGNAL);
        ::close(socket);
      }
    });
  }
  ~PlainServer() {
    ::shutdown(port_.socket(), SHUT_RDWR);
    thread_.join();
  }
  PlainServer(const PlainServer&) = delete;
  PlainServer& operator=(const PlainServer&) = delete;

  std::uint16_t port() const { return port_.number(); }

 private:
  std::string answer_;
  Port port_;
  std::thread thread_;
};

class Doctor : public testing::Test {
 protected:
  static Validity past() {
    const std::int64_t now = pki::seconds_now();
    return {now - 20 * kDay, now - 10 * kDay};
  }
  static Validity future() {
    const std::int64_t now = pki::seconds_now();
    return {now + 10 * kDay, now + 20 * kDay};
  }

  // What the doctor says of a server at 127.0.0.1.
  Diagnosis look(std::uint16_t port, const Credentials& own, const std::string& host = "127.0.0.1",
                 std::chrono::milliseconds patience = std::chrono::seconds(10)) {
    const Diagnosis found = examine(host, port, own, patience);
    const std::string number = std::to_string(port);
    Diagnosis plain = found;
    for (std::size_t at = 0; (at = plain.sentence.find(number)) != std::string::npos;) {
      plain.sentence.replace(at, number.size(), "PORT");
    }
    return plain;
  }
  std::string sentence(const Server& server) { return look(server.port(), member_).sentence; }
  // Of a member that the server, with its opinion of certificates, lets in or not.
  std::string opinion(int verdict, bool old = false) {
    Manners manners;
    manners.opinion = verdict;
    manners.old = old;
    const Server server(server_, authority_.certificate(), manners);
    const Diagnosis found = look(server.port(), member_);
    EXPECT_FALSE(found.fine);
    EXPECT_NE(found.hint, "");
    return found.sentence;
  }

  TestFolder folder_;
  Authority authority_ = Authority::create(folder_ / "ours", "Ours");
  Authority other_ = Authority::create(folder_ / "theirs", "Theirs");
  Credentials member_ = authority_.issue_client("hospital-a");
  Credentials server_ = authority_.issue_server({"localhost", "127.0.0.1"});
};

TEST_F(Doctor, FindsNothingWhereAllIsWell) {
  const Server server(server_, authority_.certificate());
  const Diagnosis found = look(server.port(), member_);
  EXPECT_TRUE(found.fine);
  EXPECT_EQ(found.sentence, "127.0.0.1:PORT is a server of our federation and accepts us");
  EXPECT_EQ(found.hint, "");
  // By name: where the name has another address at which nothing listens, too.
  EXPECT_TRUE(look(server.port(), member_, "localhost").fine);
}

TEST_F(Doctor, AlsoWithTls12AndWithAServerThatSpeaksSecond) {
  Manners old;
  old.old = true;
  EXPECT_THAT(sentence(Server(server_, authority_.certificate(), old)), HasSubstr("accepts us"));
  Manners waits;
  waits.waits = true;
  EXPECT_THAT(sentence(Server(server_, authority_.certificate(), waits)), HasSubstr("accepts us"));
}

TEST_F(Doctor, KnowsWhereThereIsNoServer) {
  EXPECT_EQ(look(1, member_, "").sentence, "there is no host called ''");
  EXPECT_THAT(look(1, member_, "no-such-host.invalid", std::chrono::seconds(3)).sentence,
              AnyOf("there is no host called 'no-such-host.invalid'",
                    StartsWith("the name 'no-such-host.invalid' cannot be looked up: ")));
  const Port closed(-1);
  EXPECT_EQ(look(closed.number(), member_).sentence, "nothing listens at 127.0.0.1:PORT");
  EXPECT_EQ(look(closed.number(), member_).hint,
            "is 'winnow serve' running there, and is the port right?");
}

TEST_F(Doctor, DoesNotWaitForEver) {
  // Once its queue is full, the system answers no more.
  const Port full(0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(full.number());
  std::vector<int> waiting;
  for (int i = 0; i < 8; ++i) {
    waiting.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    ::connect(waiting.back(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(look(full.number(), member_, "127.0.0.1", kBriefly).sentence,
            "127.0.0.1:PORT does not answer");
  for (const int socket : waiting) {
    ::close(socket);
  }
  // Nobody takes what the system has accepted.
  const Port dumb;
  EXPECT_EQ(look(dumb.number(), member_, "127.0.0.1", kBriefly).sentence,
            "127.0.0.1:PORT accepts the connection, but says nothing");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST_F(Doctor, KnowsWhatSpeaksNoTls) {
  const PlainServer web("HTTP/1.1 400 Bad Request\r\n\r\n");
  EXPECT_EQ(look(web.port(), member_).sentence, "127.0.0.1:PORT answers, but speaks no TLS");
  const PlainServer shy("");
  EXPECT_EQ(look(shy.port(), member_).sentence,
            "127.0.0.1:PORT ended the connection before it said anything");
  const PlainServer liar(std::string("\x16\x03\x03\x00\x02", 5) + "xx");
  EXPECT_FALSE(look(liar.port(), member_).fine);
}

TEST_F(Doctor, KnowsWhatIsWrongWithTheServersCertificate) {
  const std::string& ours = authority_.certificate();
  EXPECT_EQ(sentence(Server(authority_.issue_server({"127.0.0.1"}, past()), ours)),
            "the certificate of 127.0.0.1:PORT has expired, on " + pki::date_text(past().expires));
  EXPECT_EQ(
      sentence(Server(authority_.issue_server({"127.0.0.1"}, future()), ours)),
      "the certificate of 127.0.0.1:PORT is not valid before " + pki::date_text(future().begins));
  EXPECT_EQ(sentence(Server(other_.issue_server({"127.0.0.1"}), ours)),
            "the certificate of 127.0.0.1:PORT is of another federation");
  EXPECT_EQ(sentence(Server(authority_.issue_server({"fl.example.org", "192.0.2.7"}), ours)),
            "the certificate of 127.0.0.1:PORT is for another host: fl.example.org, 192.0.2.7");
  EXPECT_EQ(sentence(Server(authority_.issue_client("hospital-b"), ours)),
            "127.0.0.1:PORT shows a certificate that is not for a server");
  const Server by_address(authority_.issue_server({"127.0.0.1"}), ours);
  EXPECT_EQ(look(by_address.port(), member_, "localhost").sentence,
            "the certificate of localhost:PORT is for another host: 127.0.0.1");
}

TEST_F(Doctor, KnowsWhatTheServerThinksOfOurs) {
  for (const bool old : {false, true}) {
    EXPECT_EQ(opinion(X509_V_ERR_CERT_HAS_EXPIRED, old),
              "127.0.0.1:PORT says that our certificate has expired");
    EXPECT_EQ(opinion(X509_V_ERR_CERT_NOT_YET_VALID, old),
              "127.0.0.1:PORT says that our certificate is not valid, or not yet");
    EXPECT_EQ(opinion(X509_V_ERR_CERT_REVOKED, old),
              "127.0.0.1:PORT says that our certificate is revoked");
    EXPECT_EQ(opinion(X509_V_ERR_INVALID_PURPOSE, old),
              "127.0.0.1:PORT says that our certificate is not of the kind it wants");
    EXPECT_EQ(opinion(X509_V_ERR_PERMITTED_VIOLATION, old),
              "127.0.0.1:PORT does not accept our certificate");
    EXPECT_EQ(opinion(X509_V_ERR_APPLICATION_VERIFICATION, old),
              "127.0.0.1:PORT does not accept our certificate");
    EXPECT_EQ(opinion(X509_V_ERR_UNSPECIFIED, old),
              "127.0.0.1:PORT ends the connection: internal error");
  }
  EXPECT_EQ(sentence(Server(server_, other_.certificate())),
            "127.0.0.1:PORT says that our certificate is of another federation");
}

TEST_F(Doctor, KnowsAServerThatRefusesWithoutAWord) {
  Manners rude;
  rude.says_why = false;
  const Server server(server_, other_.certificate(), rude);
  const Diagnosis found = look(server.port(), member_);
  EXPECT_EQ(found.sentence,
            "127.0.0.1:PORT ended the connection when it saw our certificate, without a reason");
  EXPECT_EQ(found.hint,
            "compare the clocks of both machines, and ask the operator whether it is revoked");
}

TEST_F(Doctor, KnowsServersThatAreNoneOfOurs) {
  Manners trusting;
  trusting.asks = false;
  EXPECT_EQ(sentence(Server(server_, authority_.certificate(), trusting)),
            "127.0.0.1:PORT asks for no certificate");
  Manners web;
  web.http2 = false;
  EXPECT_EQ(sentence(Server(server_, authority_.certificate(), web)),
            "127.0.0.1:PORT speaks TLS, but not HTTP/2");
  Manners silent;
  silent.silent = true;
  const Server server(server_, authority_.certificate(), silent);
  EXPECT_EQ(look(server.port(), member_, "127.0.0.1", kBriefly).sentence,
            "127.0.0.1:PORT speaks TLS and then says nothing");
}

TEST_F(Doctor, LooksAtOurOwnCertificateFirst) {
  const auto said = [&](const Credentials& own) {
    const Diagnosis found = examine("127.0.0.1", 1, own);
    EXPECT_FALSE(found.fine);
    return found.sentence;
  };
  EXPECT_EQ(said(authority_.issue_client("old", past())),
            "our certificate has expired, on " + pki::date_text(past().expires));
  EXPECT_EQ(said(authority_.issue_client("new", future())),
            "our certificate is not valid before " + pki::date_text(future().begins));
  EXPECT_EQ(said(server_), "we would show a server's certificate, not a member's");
  EXPECT_EQ(said({member_.certificate, server_.key, member_.authority}),
            "our key does not belong to our certificate");
  EXPECT_EQ(said({member_.certificate, member_.key, other_.certificate()}),
            "our certificate is of another federation than the authority we trust");
  EXPECT_EQ(said({member_.certificate, member_.key, member_.certificate}),
            "what we trust is not the certificate of an authority");
  Authority gone = Authority::create(folder_ / "gone", "Gone", past());
  EXPECT_EQ(said(gone.issue_client("a", valid_for(10))),
            "the authority's certificate has expired, on " + pki::date_text(past().expires));
  EXPECT_EQ(said({"", "", ""}), "our certificate is no certificate in PEM form");
  EXPECT_EQ(said({member_.certificate, "", member_.authority}),
            "our key is no private key in PEM form");
}

TEST_F(Doctor, SaysSomethingElseOfEveryFaultOfCertificates) {
  const std::string& ours = authority_.certificate();
  const PlainServer web("HTTP/1.1 400 Bad Request\r\n\r\n");
  const std::vector<std::string> all{
      look(web.port(), member_).sentence,
      sentence(Server(authority_.issue_server({"127.0.0.1"}, past()), ours)),
      sentence(Server(authority_.issue_server({"127.0.0.1"}, future()), ours)),
      sentence(Server(other_.issue_server({"127.0.0.1"}), ours)),
      sentence(Server(authority_.issue_server({"fl.example.org"}), ours)),
      sentence(Server(authority_.issue_client("b"), ours)),
      sentence(Server(server_, other_.certificate())),
      opinion(X509_V_ERR_CERT_HAS_EXPIRED),
      opinion(X509_V_ERR_CERT_NOT_YET_VALID),
      opinion(X509_V_ERR_CERT_REVOKED),
      opinion(X509_V_ERR_INVALID_PURPOSE),
      opinion(X509_V_ERR_APPLICATION_VERIFICATION)};
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
}

// The attempt must not disturb what gRPC does in the same thread.
TEST_F(Doctor, LeavesNoErrorsBehind) {
  ERR_clear_error();
  sentence(Server(other_.issue_server({"127.0.0.1"}), authority_.certificate()));
  EXPECT_EQ(ERR_peek_error(), 0U);
}

}  // namespace winnow::doctor_test

#include "winnow/net/pki/tls_talk.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace winnow::pki {
namespace {

using TlsContext = std::unique_ptr<SSL_CTX, Releases<SSL_CTX_free>>;
using Tls = std::unique_ptr<SSL, Releases<SSL_free>>;

// What a client of HTTP/2 says first, with empty settings.
constexpr std::string_view kPreface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
constexpr std::size_t kFrameHead = 9;
constexpr unsigned char kSettings = 4;
constexpr std::array<unsigned char, 3> kHttp2{2, 'h', '2'};
constexpr auto kServerSpeaksFirst = std::chrono::seconds(2);

bool is_numeric_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

int note_that_asked(SSL* /*tls*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return 1;
}

// Keeps the first fault of the server's certificate.
int note_fault(int fine, X509_STORE_CTX* context) {
  if (fine != 1) {
    const auto* tls = static_cast<const SSL*>(
        X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* talk = static_cast<Talk*>(SSL_get_app_data(tls));
    talk->fault = X509_STORE_CTX_get_error(context);
    talk->depth = X509_STORE_CTX_get_error_depth(context);
    if (X509* shown = X509_STORE_CTX_get0_cert(context); shown != nullptr) {
      X509_up_ref(shown);
      talk->certificate.reset(shown);
    }
  }
  return fine;
}

// TLS over a socket that we read and write ourselves: with a deadline, and without the signal that
// a write to a closed connection sends.
class Conversation {
 public:
  Conversation(const Line& line, const std::string& host, const OwnParts& own, Talk& talk)
      : line_(line), talk_(talk), context_(must_have(SSL_CTX_new(TLS_client_method()), kStarting)) {
    must(SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION) == 1 &&
             SSL_CTX_use_certificate(context_.get(), own.certificate.get()) == 1 &&
             SSL_CTX_use_PrivateKey(context_.get(), own.key.get()) == 1 &&
             X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), own.authority.get()) == 1,
         kStarting);
    tls_.reset(must_have(SSL_new(context_.get()), kStarting));
    SSL_set_app_data(tls_.get(), &talk_);
    SSL_set_verify(tls_.get(), SSL_VERIFY_PEER, note_fault);
    SSL_set_cert_cb(tls_.get(), note_that_asked, &talk_.asked);
    must(SSL_set_alpn_protos(tls_.get(), kHttp2.data(), kHttp2.size()) == 0, kStarting);
    X509_VERIFY_PARAM* wanted = SSL_get0_param(tls_.get());
    X509_VERIFY_PARAM_set_hostflags(
        wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (is_numeric_address(host)) {
      must(X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) == 1, kStarting);
    } else {
      must(X509_VERIFY_PARAM_set1_host(wanted, host.data(), host.size()) == 1 &&
               SSL_set_tlsext_host_name(tls_.get(), host.c_str()) == 1,
           kStarting);
    }
    Bio in(must_have(BIO_new(BIO_s_mem()), kStarting));
    Bio out(must_have(BIO_new(BIO_s_mem()), kStarting));
    in_ = in.get();
    out_ = out.get();
    SSL_set_bio(tls_.get(), in.release(), out.release());  // it owns them now
    SSL_set_connect_state(tls_.get());
  }

  enum class Step { done, silent, closed, fault };

  Step shake_hands(Deadline deadline) {
    return drive([&] { return SSL_do_handshake(tls_.get()); }, deadline);
  }
  Step write(std::string_view bytes, Deadline deadline) {
    return drive(
        [&] { return SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size())); },
        deadline);
  }
  // Fills the buffer from what is there already on.
  Step read(std::string& buffer, std::size_t size, Deadline deadline) {
    while (buffer.size() < size) {
      std::array<char, 64> bytes{};
      const auto most = static_cast<int>(std::min(bytes.size(), size - buffer.size()));
      int got = 0;
      const Step step =
          drive([&] { return got = SSL_read(tls_.get(), bytes.data(), most); }, deadline);
      if (step != Step::done) {
        return step;
      }
      buffer.append(bytes.data(), static_cast<std::size_t>(got));
    }
    return Step::done;
  }

  bool chose_http2() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(tls_.get(), &name, &size);
    return size == 2 && name[0] == 'h' && name[1] == '2';
  }
  unsigned long error() const { return error_; }
  // Records of TLS begin with their kind: 22 for a handshake, 21 for an alert.
  bool began_with_tls() const { return first_byte_ == 22 || first_byte_ == 21; }

 private:
  static constexpr const char* kStarting = "begin a connection";

  template <typename Operation>
  Step drive(Operation operation, Deadline deadline) {
    for (;;) {
      ERR_clear_error();
      const int result = operation();
      const int why = SSL_get_error(tls_.get(), result);
      error_ = why == SSL_ERROR_SSL ? ERR_peek_error() : 0;
      // Also where we fail: the alert tells the server why. That it has gone shows when we read.
      send_all(deadline);
      if (result > 0) {
        return Step::done;
      }
      if (why == SSL_ERROR_ZERO_RETURN) {
        return Step::closed;
      }
      if (why != SSL_ERROR_WANT_READ) {
        return Step::fault;
      }
      if (const Step step = receive(deadline); step != Step::done) {
        return step;
      }
    }
  }

  bool wait_for(short events, Deadline deadline) const {
    pollfd waiting{line_.descriptor(), events, 0};
    for (;;) {
      const int ready = ::poll(&waiting, 1, milliseconds_until(deadline));
      if (ready >= 0 || errno != EINTR) {
        return ready > 0;
      }
    }
  }

  void send_all(Deadline deadline) {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out_, &bytes);
    std::string_view rest(bytes, size > 0 ? static_cast<std::size_t>(size) : 0);
    while (!rest.empty()) {
      const ssize_t sent = ::send(line_.descriptor(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        rest.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno != EINTR && (errno != EAGAIN || !wait_for(POLLOUT, deadline))) {
        break;
      }
    }
    BIO_reset(out_);
  }

  Step receive(Deadline deadline) {
    std::array<unsigned char, 16384> bytes{};
    for (;;) {
      if (!wait_for(POLLIN, deadline)) {
        return Step::silent;
      }
      const ssize_t got = ::recv(line_.descriptor(), bytes.data(), bytes.size(), 0);
      if (got > 0) {
        if (!talk_.answered) {
          talk_.answered = true;
          first_byte_ = bytes[0];
        }
        must(BIO_write(in_, bytes.data(), static_cast<int>(got)) == got, "read from a connection");
        return Step::done;
      }
      if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
        return Step::closed;
      }
    }
  }

  const Line& line_;
  Talk& talk_;
  TlsContext context_;
  Tls tls_;
  BIO* in_ = nullptr;
  BIO* out_ = nullptr;
  unsigned long error_ = 0;
  int first_byte_ = -1;
};

// What a step that did not succeed means.
Talk::End end_of(Conversation::Step step, const Conversation& conversation, Talk& talk) {
  if (talk.answered && !conversation.began_with_tls()) {
    return Talk::End::no_tls;
  }
  if (step == Conversation::Step::silent) {
    return Talk::End::silent;
  }
  if (step == Conversation::Step::closed) {
    return Talk::End::closed;
  }
  if (talk.fault != X509_V_OK) {
    return Talk::End::bad_certificate;
  }
  const int reason = ERR_GET_REASON(conversation.error());
  if (const char* text = ERR_reason_error_string(conversation.error()); text != nullptr) {
    talk.reason = text;
  }
  if (ERR_GET_LIB(conversation.error()) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET &&
      reason <= SSL_AD_REASON_OFFSET + 255) {
    talk.alert = reason - SSL_AD_REASON_OFFSET;
    return Talk::End::alert;
  }
  return Talk::End::fault;
}

}  // namespace

Talk talk_to(const Line& line, const std::string& host, const OwnParts& own, Deadline deadline) {
  using Step = Conversation::Step;
  const QuietErrors quiet;
  Talk talk;
  Conversation conversation(line, host, own, talk);
  if (const Step step = conversation.shake_hands(deadline); step != Step::done) {
    talk.end = end_of(step, conversation, talk);
    return talk;
  }
  talk.shook_hands = true;
  // What the server thinks of our certificate comes now. It also begins to speak HTTP/2 by itself;
  // where it does not, it is asked to. (To write first would lose its last words: the system of a
  // server that closes without having read sends a reset.)
  std::string frame;
  const Deadline first = std::min(deadline, std::chrono::steady_clock::now() + kServerSpeaksFirst);
  Step step = conversation.read(frame, kFrameHead, first);
  if (step == Step::silent && conversation.chose_http2()) {
    step = conversation.write(kPreface, deadline);
    if (step == Step::done) {
      step = conversation.read(frame, kFrameHead, deadline);
    }
  }
  if (step != Step::done && frame.empty() && (step != Step::silent || conversation.chose_http2())) {
    talk.end = end_of(step, conversation, talk);
    return talk;
  }
  const bool settings = frame.size() == kFrameHead &&
                        static_cast<unsigned char>(frame[3]) == kSettings &&
                        frame.substr(5) == std::string(4, '\0');
  talk.end = settings && conversation.chose_http2() ? Talk::End::settled : Talk::End::no_http2;
  return talk;
}

}  // namespace winnow::pki

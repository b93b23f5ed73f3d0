// As much of a conversation with a server as shows what is wrong with it: TLS, certificates both
// ways, the first frame of HTTP/2.
#pragma once

#include <string>

#include "winnow/net/pki/dial.h"
#include "winnow/net/pki/openssl.h"

namespace winnow::pki {

struct Talk {
  enum class End {
    settled,          // the server speaks HTTP/2 with us
    no_tls,           // it answers with something else
    silent,           // it says nothing more
    closed,           // it ends the connection
    alert,            // it says why, with a code of TLS
    bad_certificate,  // its certificate does not hold
    no_http2,
    fault,  // anything else
  };
  End end = End::fault;
  bool answered = false;     // it has sent something
  bool shook_hands = false;  // as far as we can see: of our certificate it may think otherwise
  bool asked = false;        // it wants a certificate
  int alert = 0;             // code of TLS
  int fault = 0;             // of its certificate, as X509_verify_cert() has it
  int depth = 0;             // 0: the certificate itself; more: those above it
  Certificate certificate = nullptr;  // what it has shown, if it does not hold
  std::string reason = {};            // OpenSSL's word
};

// What we show and whom we trust.
struct OwnParts {
  Certificate certificate;
  Key key;
  Certificate authority;
};

Talk talk_to(const Line& line, const std::string& host, const OwnParts& own, Deadline deadline);

}  // namespace winnow::pki

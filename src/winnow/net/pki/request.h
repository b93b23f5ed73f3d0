// What is taken from a request for a certificate, which is not trusted.
#pragma once

#include <string>

#include "winnow/net/pki/openssl.h"

namespace winnow::pki {

struct CheckedRequest {
  std::string name;
  Key key;  // the public one
};

// Throws Error(kind peer) unless the key is strong, has signed the request, and the name can be
// that of a member. Everything else in the request, extensions above all, is left where it is.
CheckedRequest check_request(const std::string& request_pem);

}  // namespace winnow::pki

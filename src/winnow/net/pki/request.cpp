// Requests for certificates: made by a member, read by the operator.
#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/obj_mac.h>

#include <algorithm>
#include <array>

#include "winnow/net/pki/authority.h"
#include "winnow/net/pki/certificate.h"
#include "winnow/net/pki/identity.h"
#include "winnow/net/pki/request.h"

namespace winnow {
namespace pki {
namespace {

constexpr int kLeastRsaBits = 2048;
constexpr int kMostRsaBits = 8192;  // checking a signature by a larger key takes long

bool is_strong_curve(EVP_PKEY& key) {
  constexpr std::array<std::string_view, 3> kCurves{"prime256v1", "secp384r1", "secp521r1"};
  std::array<char, 64> curve{};
  std::size_t size = 0;
  int by_numbers = 0;  // the curve is written out, as only attacks need it
  EVP_PKEY_get_int_param(&key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, &by_numbers);
  return by_numbers == 0 && EVP_PKEY_get_group_name(&key, curve.data(), curve.size(), &size) == 1 &&
         std::ranges::count(kCurves, std::string_view(curve.data(), size)) > 0;
}

bool is_strong(EVP_PKEY& key) {
  const int bits = EVP_PKEY_get_bits(&key);
  switch (EVP_PKEY_get_base_id(&key)) {
    case EVP_PKEY_EC:
      return is_strong_curve(key);
    case EVP_PKEY_RSA:
      return bits >= kLeastRsaBits && bits <= kMostRsaBits;
    default:
      return false;
  }
}

}  // namespace

CheckedRequest check_request(const std::string& request_pem) {
  const Whose whose{"the request", ErrorKind::peer};
  const Request request = parse_request(request_pem, whose);
  const QuietErrors quiet;
  CheckedRequest checked;
  checked.key.reset(X509_REQ_get_pubkey(request.get()));
  if (checked.key == nullptr || !is_strong(*checked.key)) {
    throw Error(
        ErrorKind::peer, "the key in the request is of a kind that is not accepted",
        "use 'winnow pki request', or EC P-256, P-384, P-521 or RSA with 2048 to 8192 bits");
  }
  if (X509_REQ_verify(request.get(), checked.key.get()) != 1) {
    throw Error(ErrorKind::peer, "the request is not signed by its own key",
                "it was changed on the way, or its sender does not have the key");
  }
  checked.name = common_name(*X509_REQ_get_subject_name(request.get()));
  if (!is_member_name(checked.name)) {
    throw Error(ErrorKind::peer,
                fmt::format("the request is for the name '{}', which cannot be that of a member",
                            checked.name),
                "names have letters, digits, '-', '_' and '.', at most 64");
  }
  return checked;
}

}  // namespace pki

KeyAndRequest make_request(const std::string& name) {
  check_member_name(name);
  const pki::QuietErrors quiet;
  const pki::Key key = pki::make_key();
  const pki::Request request(pki::must_have(X509_REQ_new(), "make a request"));
  X509_NAME* subject = X509_REQ_get_subject_name(request.get());
  pki::must(X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8,
                                       reinterpret_cast<const unsigned char*>(name.data()),
                                       static_cast<int>(name.size()), -1, 0) == 1 &&
                X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) == 1 &&
                X509_REQ_set_pubkey(request.get(), key.get()) == 1 &&
                X509_REQ_sign(request.get(), key.get(), EVP_sha256()) > 0,
            "make a request");
  return {pki::pem_of(*key), pki::pem_of(*request)};
}

RequestedName read_request(const std::string& request_pem) {
  pki::CheckedRequest checked = pki::check_request(request_pem);
  return {std::move(checked.name), pki::digest_of(*checked.key)};
}

}  // namespace winnow

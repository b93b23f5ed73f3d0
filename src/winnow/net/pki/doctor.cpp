#include "winnow/net/pki/doctor.h"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include <ctime>
#include <optional>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/net/pki/certificate.h"
#include "winnow/net/pki/tls_talk.h"

namespace winnow {
namespace {

using pki::CertificateKind;
using pki::Dialled;
using pki::Facts;
using pki::Talk;

Diagnosis trouble(std::string_view sentence, std::string_view hint) {
  return {false, printable(sentence), printable(hint)};
}

constexpr const char* kCompareClocks = "compare the clocks of both machines";

// ---- what we would show

std::optional<Diagnosis> fault_of_own_dates(const Facts& own, const Facts& authority) {
  const std::int64_t now = pki::seconds_now();
  if (own.expires < now) {
    return trouble(fmt::format("our certificate has expired, on {}", pki::date_text(own.expires)),
                   "make a new request (winnow pki request) and have it signed; if it should still "
                   "be valid, set this machine's clock");
  }
  if (own.begins > now) {
    return trouble(
        fmt::format("our certificate is not valid before {}", pki::date_text(own.begins)),
        fmt::format("this machine's clock shows {}: set it, or wait", pki::date_text(now)));
  }
  if (authority.expires < now) {
    return trouble(
        fmt::format("the authority's certificate has expired, on {}",
                    pki::date_text(authority.expires)),
        "ask the operator for a new authority and a new certificate, or set this machine's clock");
  }
  if (authority.begins > now) {
    return trouble(
        fmt::format("the authority's certificate is not valid before {}",
                    pki::date_text(authority.begins)),
        fmt::format("this machine's clock shows {}: set it, or wait", pki::date_text(now)));
  }
  return std::nullopt;
}

std::optional<Diagnosis> fault_of_own(const pki::OwnParts& own) {
  const Facts facts = pki::facts_of(*own.certificate, {"our certificate"});
  const Facts authority = pki::facts_of(*own.authority, {"the authority's certificate"});
  if (!pki::key_fits(*own.certificate, *own.key)) {
    return trouble("our key does not belong to our certificate",
                   "give the key that was made with the request");
  }
  if (facts.kind != CertificateKind::client) {
    return trouble(fmt::format("we would show {}, not a member's", pki::kind_text(facts.kind)),
                   "members need a certificate of 'winnow pki sign' or 'winnow pki issue client'");
  }
  if (authority.kind != CertificateKind::authority) {
    return trouble("what we trust is not the certificate of an authority",
                   "the operator has it as authority.pem");
  }
  if (pki::chain_fault(*own.certificate, *own.authority) != X509_V_OK) {
    return trouble("our certificate is of another federation than the authority we trust",
                   "use the certificate and the authority.pem of one federation");
  }
  return fault_of_own_dates(facts, authority);
}

// ---- the way to the server

Diagnosis no_line(const std::string& host, const std::string& where, const pki::Line& line) {
  switch (line.outcome()) {
    case Dialled::unknown_host:
      return trouble(fmt::format("there is no host called '{}'", host),
                     "check the spelling, or give its address");
    case Dialled::no_name_server:
      return trouble(fmt::format("the name '{}' cannot be looked up: {}", host, line.reason()),
                     "check this machine's network and name server, or give the address");
    case Dialled::refused:
      return trouble(fmt::format("nothing listens at {}", where),
                     "is 'winnow serve' running there, and is the port right?");
    case Dialled::no_answer:
      return trouble(fmt::format("{} does not answer", where),
                     "the machine may be off, or a firewall may block us");
    default:
      return trouble(fmt::format("there is no route to {}: {}", where, line.reason()),
                     "check this machine's network");
  }
}

// ---- its certificate

Diagnosis other_host(const std::string& where, const Talk& talk) {
  std::string hosts;
  try {
    hosts = join(pki::facts_of(*talk.certificate, {"it"}).hosts, ", ");
  } catch (const Error&) {
    // Then it is just not for this one.
  }
  return trouble(
      fmt::format("the certificate of {} is for another host{}{}", where, hosts.empty() ? "" : ": ",
                  hosts),
      "use a name it is for, or have a new one made with 'winnow pki issue server HOST'");
}

Diagnosis bad_server(const std::string& where, const Talk& talk) {
  const auto date = [&](const ASN1_TIME* (*get)(const X509*)) {
    std::tm parts{};
    return talk.certificate != nullptr && ASN1_TIME_to_tm(get(talk.certificate.get()), &parts) == 1
               ? pki::date_text(static_cast<std::int64_t>(::timegm(&parts)))
               : std::string("a date unknown");
  };
  switch (talk.fault) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return trouble(
          fmt::format("the certificate of {} has expired, on {}", where, date(X509_get0_notAfter)),
          "its operator must make a new one with 'winnow pki issue server'; if it should still be "
          "valid, set this machine's clock");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return trouble(fmt::format("the certificate of {} is not valid before {}", where,
                                 date(X509_get0_notBefore)),
                     fmt::format("this machine's clock shows {}: set it, or wait",
                                 pki::date_text(pki::seconds_now())));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_AKID_SKID_MISMATCH:
      return trouble(fmt::format("the certificate of {} is of another federation", where),
                     "is that the right server? if so, get its operator's authority.pem");
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return other_host(where, talk);
    case X509_V_ERR_INVALID_PURPOSE:
      return trouble(fmt::format("{} shows a certificate that is not for a server", where),
                     "its operator must give it one made with 'winnow pki issue server'; a "
                     "member's does not count");
    default:
      return trouble(fmt::format("the certificate of {} is not valid: {}", where,
                                 X509_verify_cert_error_string(talk.fault)),
                     "its operator must make a new one with 'winnow pki issue server'");
  }
}

// ---- what it thinks of ours

Diagnosis refused_by_alert(const std::string& where, const Talk& talk) {
  // Before it has asked for a certificate, that is about something else.
  const bool refused = talk.asked && talk.alert == SSL_AD_HANDSHAKE_FAILURE;
  switch (refused ? SSL_AD_ACCESS_DENIED : talk.alert) {
    case SSL_AD_CERTIFICATE_EXPIRED:
      return trouble(fmt::format("{} says that our certificate has expired", where),
                     fmt::format("by this machine's clock it has not: {}", kCompareClocks));
    case SSL_AD_BAD_CERTIFICATE:
      return trouble(fmt::format("{} says that our certificate is not valid, or not yet", where),
                     fmt::format("by this machine's clock it is: {}", kCompareClocks));
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_DECRYPT_ERROR:
      return trouble(fmt::format("{} says that our certificate is of another federation", where),
                     "its operator must give it the authority.pem of this one");
    case SSL_AD_CERTIFICATE_REVOKED:
      return trouble(fmt::format("{} says that our certificate is revoked", where),
                     "ask the operator; a new request can be signed with --replace");
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
      return trouble(
          fmt::format("{} says that our certificate is not of the kind it wants", where),
          "members need a certificate of 'winnow pki sign' or 'winnow pki issue client'");
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_ACCESS_DENIED:
      return trouble(fmt::format("{} does not accept our certificate", where),
                     "ask the operator whether we are a member, and whether it is revoked");
    case SSL_AD_PROTOCOL_VERSION:
      return trouble(fmt::format("{} speaks another version of TLS", where),
                     "Winnow needs TLS 1.2 or 1.3");
    default:
      return trouble(
          fmt::format("{} ends the connection: {}", where, SSL_alert_desc_string_long(talk.alert)),
          "is the port that of 'winnow serve'?");
  }
}

Diagnosis closed_by_server(const std::string& where, const Talk& talk) {
  if (talk.shook_hands && talk.asked) {
    return trouble(
        fmt::format("{} ended the connection when it saw our certificate, without a reason", where),
        fmt::format("{}, and ask the operator whether it is revoked", kCompareClocks));
  }
  if (talk.answered) {
    return trouble(
        fmt::format("{} ended the connection in the middle of TLS", where),
        "try again; if it keeps happening, does something between us read the connection?");
  }
  return trouble(fmt::format("{} ended the connection before it said anything", where),
                 "it may speak no TLS: is the port that of 'winnow serve'?");
}

Diagnosis silent_server(const std::string& where, const Talk& talk) {
  if (talk.shook_hands) {
    return trouble(fmt::format("{} speaks TLS and then says nothing", where),
                   "is the port that of 'winnow serve'?");
  }
  return trouble(fmt::format("{} accepts the connection, but says nothing", where),
                 "it may speak no TLS, or be overloaded: is the port that of 'winnow serve'?");
}

Diagnosis meaning_of(const std::string& where, const Talk& talk) {
  switch (talk.end) {
    case Talk::End::settled:
      if (!talk.asked) {
        return trouble(fmt::format("{} asks for no certificate", where),
                       "a server of Winnow does: is the port that of 'winnow serve'?");
      }
      return {true, fmt::format("{} is a server of our federation and accepts us", where), ""};
    case Talk::End::no_tls:
      return trouble(fmt::format("{} answers, but speaks no TLS", where),
                     "is the port that of 'winnow serve'?");
    case Talk::End::silent:
      return silent_server(where, talk);
    case Talk::End::closed:
      return closed_by_server(where, talk);
    case Talk::End::alert:
      return refused_by_alert(where, talk);
    case Talk::End::bad_certificate:
      return bad_server(where, talk);
    case Talk::End::no_http2:
      return trouble(fmt::format("{} speaks TLS, but not HTTP/2", where),
                     "is the port that of 'winnow serve'?");
    case Talk::End::fault:
      break;
  }
  return trouble(fmt::format("the connection to {} fails: {}", where, talk.reason), "");
}

Diagnosis diagnose(const std::string& host, const std::string& where, std::uint16_t port,
                   const Credentials& own, pki::Deadline deadline) {
  const pki::OwnParts parts{pki::parse_certificate(own.certificate, {"our certificate"}),
                            pki::parse_key(own.key, {"our key"}),
                            pki::parse_certificate(own.authority, {"the authority's certificate"})};
  if (std::optional<Diagnosis> fault = fault_of_own(parts)) {
    return *fault;
  }
  const pki::Line line = pki::dial(host, port, deadline);
  if (line.outcome() != Dialled::connected) {
    return no_line(host, where, line);
  }
  return meaning_of(where, pki::talk_to(line, host, parts, deadline));
}

}  // namespace

Diagnosis examine(const std::string& host, std::uint16_t port, const Credentials& own,
                  std::chrono::milliseconds patience) {
  const std::string where = host.find(':') == std::string::npos
                                ? fmt::format("{}:{}", host, port)
                                : fmt::format("[{}]:{}", host, port);
  try {
    return diagnose(host, where, port, own, std::chrono::steady_clock::now() + patience);
  } catch (const Error& error) {
    return {false, error.what(), error.hint()};
  }
}

}  // namespace winnow

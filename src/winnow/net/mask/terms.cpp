#include "winnow/net/mask/terms.h"

#include <fmt/format.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/net/mask/letters.h"
#include "winnow/net/mask/secrets.h"
#include "winnow/net/pki/certificate.h"
#include "winnow/net/pki/identity.h"

namespace winnow::mask {
namespace {

constexpr std::size_t kMostSignature = 512;
constexpr std::size_t kMostCertificate = 4096;
constexpr std::size_t kMostOffer = 2 * kKeyBytes + kMostSignature + kMostCertificate + 8;
constexpr std::int64_t kMostClient = 10'000'000;

FieldRule session_field() {
  return letter(kSession, "the sum that the keys are for", kSessionBytes);
}

std::string signed_text(const MaskTerms& terms, const std::string& session, std::int64_t client,
                        const MaskOffer& offer) {
  LetterWriter text;
  text.put("winnow keys for masks 1\n");
  text.put_counted(terms.federation);
  text.put_counted(terms.charter);
  text.put(session);
  text.put(static_cast<std::uint32_t>(client));
  text.put(offer.channel);
  text.put(offer.mask);
  return text.bytes();
}

Exchange masked_exchange(const Exchange& plain, std::int64_t members) {
  Exchange masked{masked_kind(plain.task), plain.asks, masked_kind(plain.reply), {}};
  masked.asks.push_back(session_field());
  masked.asks.push_back(letter(kLetter, "shares that others have sealed for it",
                               members * static_cast<std::int64_t>(kSealedShare + 4)));
  for (const FieldRule& field : plain.answers) {
    if (!field.sum) {
      masked.answers.push_back(field);
      continue;
    }
    for (const char* half : {"low", "high"}) {
      masked.answers.push_back(
          field::model(fmt::format("{}_{}", field.name, half),
                       fmt::format("{} words of '{}', masked: only their sum over all members of "
                                   "the round reveals anything",
                                   half, field.name))
              .finite_or_not());
    }
  }
  masked.answers.push_back(
      field::flag(kFits, "whether all values of its models fit into a sum").between(0, 1));
  return masked;
}

}  // namespace

std::string masked_kind(const std::string& kind) {
  return "masked_" + kind;
}

std::vector<Exchange> masked_exchanges(const std::vector<Exchange>& plain, std::int64_t members) {
  std::vector<Exchange> exchanges;
  for (const Exchange& exchange : plain) {
    const bool summed = std::ranges::any_of(
        exchange.answers, [](const FieldRule& field) { return field.sum.has_value(); });
    exchanges.push_back(summed ? masked_exchange(exchange, members) : exchange);
  }
  const auto most = static_cast<std::int64_t>(kMostOffer);
  exchanges.push_back(
      {kKeysTask,
       {session_field()},
       "mask_keys_done",
       {letter(kLetter, "fresh keys for masks, its certificate and a signature", most)}});
  exchanges.push_back(
      {kSharesTask,
       {session_field(),
        letter(kLetter, "the keys of all members of the round", members * (most + 8))},
       "mask_shares_done",
       {letter(kLetter, "shares of its keys for masks, each sealed for another member",
               members * static_cast<std::int64_t>(kSealedShare))}});
  exchanges.push_back(
      {kOpenTask,
       {session_field(), letter(kLetter, "the members whose words have arrived", members * 4)},
       "mask_open_done",
       {letter(kLetter,
               "shares that make masks cancel: of the key of a member that dropped out, otherwise "
               "of the seed of its own mask",
               members * static_cast<std::int64_t>(kKeyBytes))}});
  return exchanges;
}

std::string MaskOffer::bytes() const {
  LetterWriter writer;
  writer.put(channel);
  writer.put(mask);
  writer.put_counted(signature);
  writer.put_counted(certificate);
  return writer.bytes();
}

MaskOffer MaskOffer::read(const std::string& bytes) {
  LetterReader reader(bytes, "an offer of keys for masks");
  MaskOffer offer;
  offer.channel = reader.take(kKeyBytes);
  offer.mask = reader.take(kKeyBytes);
  offer.signature = reader.counted(kMostSignature);
  offer.certificate = reader.counted(kMostCertificate);
  reader.end();
  return offer;
}

MaskOffer make_offer(const MaskTerms& terms, const std::string& session, std::int64_t client,
                     std::string channel, std::string mask, const Credentials& own) {
  MaskOffer offer{std::move(channel), std::move(mask), {}, own.certificate};
  offer.signature = signature_of(signed_text(terms, session, client, offer), own.key);
  return offer;
}

std::string check_offer(const MaskTerms& terms, const std::string& session, std::int64_t client,
                        const MaskOffer& offer) {
  const Identity identity = identity_of(offer.certificate);
  const pki::Certificate shown =
      pki::parse_certificate(offer.certificate, {"a member's certificate", ErrorKind::peer});
  const pki::Certificate root =
      pki::parse_certificate(terms.authority, {"the authority's certificate"});
  if (identity.federation != terms.federation ||
      pki::chain_fault(*shown, *root, X509_PURPOSE_SSL_CLIENT) != X509_V_OK) {
    throw Error(
        ErrorKind::peer,
        fmt::format("the keys for masks of client {} are not of a member of this federation",
                    client));
  }
  if (!is_signed(signed_text(terms, session, client, offer), offer.signature, offer.certificate)) {
    throw Error(ErrorKind::peer, fmt::format("the keys for masks of client {} are not signed by {}",
                                             client, identity.name));
  }
  return identity.name;
}

std::string letter_of(const Roster& roster) {
  LetterWriter writer;
  for (const auto& [client, offer] : roster) {
    writer.put(static_cast<std::uint32_t>(client));
    writer.put_counted(offer.bytes());
  }
  return writer.bytes();
}

Roster read_roster(const std::string& bytes) {
  LetterReader reader(bytes, "the list of keys for masks");
  Roster roster;
  while (!reader.done()) {
    const auto client = static_cast<std::int64_t>(reader.number());
    MaskOffer offer = MaskOffer::read(reader.counted(kMostOffer));
    if (client > kMostClient || !roster.emplace(client, std::move(offer)).second) {
      throw Error(ErrorKind::peer,
                  fmt::format("the list of keys for masks has client {} twice", client));
    }
  }
  return roster;
}

std::string seal_purpose(const std::string& session, std::int64_t from, std::int64_t to) {
  return fmt::format("winnow share from {} to {} ", from, to) + session;
}

std::string pair_purpose(const std::string& session, std::int64_t one, std::int64_t other) {
  return fmt::format("winnow mask of {} and {} ", std::min(one, other), std::max(one, other)) +
         session;
}

std::string own_purpose(const std::string& session, std::int64_t client) {
  return fmt::format("winnow mask of {} alone ", client) + session;
}

}  // namespace winnow::mask

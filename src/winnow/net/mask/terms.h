// What server and members agree on where models travel under masks: the messages, the threshold,
// and how a member's keys are tied to its certificate.
//
// A sum takes four asks. Members tell fresh keys; each shares its secrets among all, sealed for
// every other; each sends its words under masks; and those whose words arrived open what cancels
// the masks of those that did not, and each one's own mask of those that did. It is the protocol of
// Bonawitz et al., Practical Secure Aggregation (CCS 2017), for a server that keeps to it and is
// curious.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "winnow/federation/exchange.h"
#include "winnow/net/pki/credentials.h"

namespace winnow::mask {

inline constexpr const char* kKeysTask = "mask_keys";
inline constexpr const char* kSharesTask = "mask_shares";
inline constexpr const char* kOpenTask = "mask_open";
inline constexpr const char* kSession = "session";
inline constexpr const char* kLetter = "letter";
inline constexpr const char* kFits = "fits";

inline constexpr std::size_t kSessionBytes = 16;
inline constexpr std::size_t kShareBytes = 64;   // of a member's mask key and of its own seed
inline constexpr std::size_t kSealedShare = 80;  // the same, sealed

// A sum of fewer hides too little, and a list of the keys of more is too long for a call.
inline constexpr std::int64_t kFewestMasked = 3;
inline constexpr std::int64_t kMostMasked = 500;

// Of so many members that have told keys, how many must stay to the end: more than two thirds. Even
// if a third of them helped a lying server, it would not get both secrets of one member.
constexpr std::int64_t threshold_of(std::int64_t members) {
  return 2 * members / 3 + 1;
}

// The exchange "train" becomes "masked_train", whose reply has "model_low" and "model_high" instead
// of "model", and "fits"; three exchanges for the keys are added. Nothing is left by which a model
// that is summed could leave without a mask.
std::string masked_kind(const std::string& kind);
std::vector<Exchange> masked_exchanges(const std::vector<Exchange>& plain, std::int64_t members);

// The federation that masks are for.
struct MaskTerms {
  std::string federation;  // id of the authority
  std::string charter;     // its hash, hexadecimal
  std::string authority;   // its certificate, PEM
};

// What a member tells the others of itself in a session: two keys, signed with the key of its
// certificate.
struct MaskOffer {
  std::string channel;  // for what is sealed for it
  std::string mask;     // for the masks that it shares with others
  std::string signature;
  std::string certificate;  // PEM

  std::string bytes() const;
  // Throws Error(kind peer) where it is none.
  static MaskOffer read(const std::string& bytes);
};

MaskOffer make_offer(const MaskTerms& terms, const std::string& session, std::int64_t client,
                     std::string channel, std::string mask, const Credentials& own);
// Who stands behind an offer: the name in the certificate. Throws Error(kind peer) where the
// certificate is not one of a member of this federation or has not signed the offer.
std::string check_offer(const MaskTerms& terms, const std::string& session, std::int64_t client,
                        const MaskOffer& offer);

// All offers of a session by client, as a letter and back.
using Roster = std::map<std::int64_t, MaskOffer>;
std::string letter_of(const Roster& roster);
Roster read_roster(const std::string& bytes);

// The purposes of derived keys.
std::string seal_purpose(const std::string& session, std::int64_t from, std::int64_t to);
std::string pair_purpose(const std::string& session, std::int64_t one, std::int64_t other);
std::string own_purpose(const std::string& session, std::int64_t client);

}  // namespace winnow::mask

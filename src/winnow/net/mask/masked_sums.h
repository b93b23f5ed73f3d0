// The server's side of sums under masks.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "winnow/federation/fleet.h"
#include "winnow/net/mask/terms.h"

namespace winnow::mask {

// Masks that do not cancel: too few members stayed to the end, or what they sent does not fit
// together. The sum is lost; it can be asked for again under another session.
class MasksRemain : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What Fleet::ask_for_sums() gives, to the bit, without a look at a single model. `fleet` must
// answer by masked_exchanges(). `session`: kSessionBytes that no other sum of the federation has.
// Throws MasksRemain, and Error(kind run) where too few models fit into a sum at all.
Sums masked_sums(Fleet& fleet, const std::vector<Order>& orders,
                 const std::vector<FieldRule>& rules, const Fleet::Hear& hear,
                 const MaskTerms& terms, const std::string& session);

}  // namespace winnow::mask

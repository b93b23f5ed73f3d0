// Consent: nothing of a member leaves before somebody has read what will, and said yes.
#pragma once

#include <functional>
#include <string>

#include "winnow/run/charter.h"

namespace winnow::member {

// The charter for a person: who asks for what, and all that will leave the member.
std::string consent_text(const Charter& charter, const std::string& hash);

// What somebody has said, or is asked.
struct Consent {
  std::string pinned = {};  // the hash that was agreed to before; empty: none
  std::string given = {};   // by --agree: all 64 digits of the hash; empty: none
  // Shows a text and returns whether the answer is yes; null where nobody can be asked.
  std::function<bool(const std::string& text)> ask = {};
};

// Returns when the charter is agreed to. Throws Error(kind usage) with what to do where it is not.
void require_consent(const Charter& charter, const std::string& hash, const Consent& consent);

}  // namespace winnow::member

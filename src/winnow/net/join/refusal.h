// What a member says when its server refuses it, or does what no server should.
#pragma once

#include <string>

#include "winnow/base/error.h"
#include "winnow/net/join/channel.h"

namespace winnow::member {

// Throws Error(kind peer): "the server WHY".
[[noreturn]] void refuse_server(const std::string& why);

// The server's own words, or what its reason means.
std::string words_of(const v1::Refusal& refusal);

// Throws Unreachable, as the server is not reached yet, or Error(kind peer) in words.
[[noreturn]] void raise_refusal(const v1::Refusal& refusal, const std::string& about);

// The charter that this member has agreed to is not the server's any more.
Error other_charter();

}  // namespace winnow::member

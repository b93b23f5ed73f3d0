// What a server has on offer, and what a member fetches from it.
#pragma once

#include <cstdint>
#include <string>

#include "winnow/net/join/channel.h"
#include "winnow/run/charter.h"

namespace winnow::member {

// 16 bytes that nobody can guess, by which the server tells two processes of one name apart.
std::string random_process();

// Before anything is agreed to.
struct Offer {
  std::string text;  // of the charter
  std::string hash;
  Charter charter;
  std::int64_t client = 0;  // for somebody who is new only a guess
};

// Asks for it. Throws Unreachable, and Error(kind peer) where the server refuses, speaks another
// protocol, or sends a charter that is none.
Offer ask_offer(Channel& channel, const std::string& process);

// Agrees to it, and so takes the place that it tells of; who is new gets one only now. Returns
// which client this member is. Nothing else is told yet. Throws as ask_offer().
std::int64_t accept_offer(Channel& channel, const Offer& offer, const std::string& process);

// The public images of a charter, piece by piece, checked against their digest; empty where it has
// none. Throws as the channel does, and Error(kind peer).
std::string fetch_public_images(Channel& channel, const Charter& charter);

// All pieces of something whose length is known, one after the other; `what` it is, for messages.
// Throws as fetch_public_images().
std::string fetch_all(Channel& channel, const std::string& digest, std::uint64_t bytes,
                      const std::string& what);

}  // namespace winnow::member

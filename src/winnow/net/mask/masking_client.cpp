#include "winnow/net/mask/masking_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "winnow/base/error.h"
#include "winnow/federation/fixed_sum.h"
#include "winnow/net/mask/letters.h"
#include "winnow/net/mask/secrets.h"
#include "winnow/net/mask/shamir.h"

namespace winnow::mask {
namespace {

constexpr const char* kDrawer = "winnow.masks";  // of the client's memory

[[noreturn]] void refuse_server(const std::string& why) {
  throw Error(ErrorKind::peer, fmt::format("the server {}", why));
}

std::string hex(const std::string& bytes) {
  std::string digits;
  for (const char byte : bytes) {
    digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return digits;
}

std::string unhex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    const auto nibble = [&](char digit) {
      if (digit >= '0' && digit <= '9') {
        return digit - '0';
      }
      if (digit < 'a' || digit > 'f') {
        throw Error(ErrorKind::run, "what the member remembers of masks is damaged");
      }
      return digit - 'a' + 10;
    };
    bytes.push_back(static_cast<char>(nibble(digits[i]) * 16 + nibble(digits[i + 1])));
  }
  return bytes;
}

// What a client keeps of a session.
struct Kept {
  std::string session;
  std::string channel_secret;
  std::string mask_secret;
  std::string seed;    // of its own mask
  std::string offer;   // as bytes
  std::string roster;  // as bytes, once it is known
  std::string own_share;
  std::string received;  // the sealed shares of those that stayed, as bytes
};

// The entries of what is kept, by name.
using KeptEntry = std::pair<const char*, std::string Kept::*>;
constexpr std::array<KeptEntry, 8> kEntries{{{"session", &Kept::session},
                                             {"channel", &Kept::channel_secret},
                                             {"mask", &Kept::mask_secret},
                                             {"seed", &Kept::seed},
                                             {"offer", &Kept::offer},
                                             {"roster", &Kept::roster},
                                             {"own_share", &Kept::own_share},
                                             {"received", &Kept::received}}};

void keep(ClientContext& context, const Kept& kept) {
  Json json = Json::object();
  for (const auto& [name, entry] : kEntries) {
    json[name] = hex(kept.*entry);
  }
  context.archive().values[kDrawer] = std::move(json);
}

Kept kept_of(ClientContext& context, const std::string& session) {
  const std::optional<CheckedJson> found = context.archive().find(kDrawer);
  if (!found) {
    refuse_server("goes on with a sum under masks that was not begun");
  }
  Kept kept;
  for (const auto& [name, entry] : kEntries) {
    kept.*entry = unhex(found->at(name).text());
  }
  if (kept.session != session) {
    refuse_server("goes on with another sum under masks than it has begun");
  }
  return kept;
}

std::string letter_in(const Message& task) {
  return bytes_in(task.get<std::vector<float>>(kLetter));
}

Message letter_reply(const std::string& kind, const std::string& bytes) {
  return Message(kind).set(kLetter, numbers_of(bytes));
}

std::size_t place_of(const Roster& roster, std::int64_t client) {
  return static_cast<std::size_t>(std::distance(roster.begin(), roster.find(client)));
}

std::int64_t least_of(const Roster& roster) {
  return std::max(threshold_of(std::ssize(roster)), kFewestMasked);
}

// The sealed shares by sender. All must be of the roster, and with the client itself enough.
std::map<std::int64_t, std::string> shares_in(const std::string& bytes, const Roster& roster,
                                              std::int64_t client) {
  LetterReader reader(bytes, "the list of shares from the server");
  std::map<std::int64_t, std::string> shares;
  while (!reader.done()) {
    const auto from = static_cast<std::int64_t>(reader.number());
    std::string sealed = reader.take(kSealedShare);
    if (from == client || !roster.contains(from) ||
        !shares.emplace(from, std::move(sealed)).second) {
      refuse_server(fmt::format("sends a share of client {}, which has none to send", from));
    }
  }
  if (std::ssize(shares) + 1 < least_of(roster)) {
    refuse_server(fmt::format("wants a sum of {} members under masks, expected at least {}",
                              shares.size() + 1, least_of(roster)));
  }
  return shares;
}

std::string open_share(const Kept& kept, const Roster& roster, std::int64_t from, std::int64_t to,
                       const std::string& sealed_share) {
  const std::string key = derived(agree(kept.channel_secret, roster.at(from).channel),
                                  seal_purpose(kept.session, from, to));
  std::string share = unsealed(key, sealed_share);
  if (share.size() != kShareBytes) {
    throw Error(ErrorKind::peer, "a share of a member's keys has another length than it should");
  }
  return share;
}

}  // namespace

void MaskingClient::do_once(const std::string& step, const std::string& session,
                            std::int64_t client) const {
  const std::lock_guard lock(mutex_);
  if (!done_.insert(fmt::format("{} {} {}", step, client, hex(session))).second) {
    refuse_server("asks for a step of a sum under masks again, which is done only once");
  }
}

Message MaskingClient::handle(const Message& task, ClientContext& context) const {
  if (!task.has(kSession)) {
    return side_->handle(task, context);
  }
  const std::string session = bytes_in(task.get<std::vector<float>>(kSession));
  if (session.size() != kSessionBytes) {
    refuse_server("names a sum under masks in another form than it should");
  }
  if (task.kind() == kKeysTask) {
    return tell_keys(session, context);
  }
  if (task.kind() == kSharesTask) {
    return share_keys(session, task, context);
  }
  if (task.kind() == kOpenTask) {
    return open_shares(session, task, context);
  }
  const auto plain = std::ranges::find_if(
      plain_, [&](const Exchange& exchange) { return masked_kind(exchange.task) == task.kind(); });
  if (plain == plain_.end()) {
    refuse_server(fmt::format("sends a task '{}', which there is not", task.kind()));
  }
  return send_words(session, *plain, task, context);
}

Message MaskingClient::tell_keys(const std::string& session, ClientContext& context) const {
  const auto own = members_.find(context.id());
  if (own == members_.end()) {
    throw Error(ErrorKind::internal, "a member has no certificate to sign its keys with");
  }
  do_once("keys", session, context.id());
  const KeyPair channel = make_pair();
  const KeyPair mask = make_pair();
  Kept kept;
  kept.session = session;
  kept.channel_secret = channel.secret;
  kept.mask_secret = mask.secret;
  kept.seed = random_bytes(kKeyBytes);
  kept.offer =
      make_offer(terms_, session, context.id(), channel.known, mask.known, own->second).bytes();
  keep(context, kept);
  return letter_reply("mask_keys_done", kept.offer);
}

Message MaskingClient::share_keys(const std::string& session, const Message& task,
                                  ClientContext& context) const {
  Kept kept = kept_of(context, session);
  kept.roster = letter_in(task);
  const Roster roster = read_roster(kept.roster);
  const std::int64_t own = context.id();
  if (std::ssize(roster) < kFewestMasked) {
    refuse_server(fmt::format("wants a sum of {} members under masks, expected at least {}",
                              roster.size(), kFewestMasked));
  }
  if (!roster.contains(own) || roster.at(own).bytes() != kept.offer) {
    refuse_server("has changed the keys of this member");
  }
  std::set<std::string> names;
  for (const auto& [client, offer] : roster) {
    if (!names.insert(check_offer(terms_, session, client, offer)).second) {
      refuse_server("lists a member twice");
    }
  }
  do_once("shares", session, own);
  const auto threshold = static_cast<std::size_t>(least_of(roster));
  const std::string secret = kept.mask_secret + kept.seed;
  const std::vector<std::string> shares =
      split_secret(secret, threshold, roster.size(), random_bytes((threshold - 1) * secret.size()));
  LetterWriter letter;
  for (const auto& [client, offer] : roster) {
    const std::string& share = shares[place_of(roster, client)];
    if (client == own) {
      kept.own_share = share;
      continue;
    }
    const std::string key =
        derived(agree(kept.channel_secret, offer.channel), seal_purpose(session, own, client));
    letter.put(sealed(key, share));
  }
  keep(context, kept);
  return letter_reply("mask_shares_done", letter.bytes());
}

Message MaskingClient::send_words(const std::string& session, const Exchange& plain,
                                  const Message& task, ClientContext& context) const {
  Kept kept = kept_of(context, session);
  const Roster roster = read_roster(kept.roster);
  const std::int64_t own = context.id();
  kept.received = letter_in(task);
  const std::map<std::int64_t, std::string> received = shares_in(kept.received, roster, own);
  for (const auto& [from, share] : received) {
    std::ignore = open_share(kept, roster, from, own, share);  // or nothing is sent
  }
  Message inner(plain.task);
  for (const FieldRule& field : plain.asks) {
    inner.set(field.name, field_in(task, field.name));
  }
  const Message answer = side_->handle(inner, context);
  check_reply(answer, inner, plain_);
  do_once("words", session, own);

  bool fits = true;
  std::vector<std::vector<std::uint64_t>> words;
  for (const FieldRule& field : plain.answers) {
    if (field.sum) {
      const auto& model = answer.get<State>(field.name);
      fits = fits && unfit_value(model).empty();
      words.emplace_back(static_cast<std::size_t>(model.layout->total()));
      if (fits) {
        add_words(model, part_weights(*field.sum, answer.get<std::uint32_t>("samples")),
                  words.back());
      }
    }
  }
  const auto apply = [&](const std::string& key, bool subtract) {
    MaskStream stream(key);
    for (std::vector<std::uint64_t>& each : words) {
      subtract ? stream.take_from(each) : stream.add_to(each);
    }
  };
  apply(derived(kept.seed, own_purpose(session, own)), false);
  for (const auto& [other, share] : received) {
    apply(
        derived(agree(kept.mask_secret, roster.at(other).mask), pair_purpose(session, own, other)),
        other < own);
  }

  Message reply(masked_kind(plain.reply));
  auto next = words.begin();
  for (const FieldRule& field : plain.answers) {
    if (field.sum) {
      Halves halves = halves_of(*next++, answer.get<State>(field.name).layout);
      reply.set(field.name + "_low", std::move(halves.low));
      reply.set(field.name + "_high", std::move(halves.high));
    } else {
      reply.set(field.name, field_in(answer, field.name));
    }
  }
  reply.set(kFits, static_cast<std::uint8_t>(fits ? 1 : 0));
  keep(context, kept);
  return reply;
}

Message MaskingClient::open_shares(const std::string& session, const Message& task,
                                   ClientContext& context) const {
  const Kept kept = kept_of(context, session);
  const Roster roster = read_roster(kept.roster);
  const std::int64_t own = context.id();
  std::map<std::int64_t, std::string> stayed = shares_in(kept.received, roster, own);
  const std::string bytes = letter_in(task);
  LetterReader reader(bytes, "the list of members from the server");
  std::set<std::int64_t> arrived;
  while (!reader.done()) {
    const auto client = static_cast<std::int64_t>(reader.number());
    if ((client != own && !stayed.contains(client)) || !arrived.insert(client).second) {
      refuse_server(fmt::format("says that words of client {} arrived, which sent none", client));
    }
  }
  if (!arrived.contains(own) || std::ssize(arrived) < least_of(roster)) {
    refuse_server(fmt::format("opens a sum of {} members under masks, expected at least {}",
                              arrived.size(), least_of(roster)));
  }
  do_once("open", session, own);
  stayed.emplace(own, std::string());
  LetterWriter letter;
  for (const auto& [client, sealed_share] : stayed) {
    const std::string share =
        client == own ? kept.own_share : open_share(kept, roster, client, own, sealed_share);
    // The seed of a mask that is in the sum, or the key of one who dropped out: never both.
    letter.put(arrived.contains(client) ? share.substr(kKeyBytes) : share.substr(0, kKeyBytes));
  }
  context.archive().values.erase(kDrawer);
  return letter_reply("mask_open_done", letter.bytes());
}

}  // namespace winnow::mask

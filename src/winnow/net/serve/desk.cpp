#include "winnow/net/serve/desk.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/net/serve/desk_parts.h"
#include "winnow/net/serve/reply_bounds.h"

namespace winnow::net {
namespace {

constexpr std::size_t kLongestWord = 64;  // of what a member says of itself
// A member that is refused again and again does not fill the disk with the news of it.
constexpr std::int64_t kRefusalsNoted = 1000;

// Of a reply as it was announced when it was accepted.
std::string digest_of_accepted(const ReplyRow& reply, const Layout& layout) {
  v1::Opening opening;
  opening.set_head(reply.head);
  for (const PackedModel& packed : reply.models) {
    v1::Model& model = *opening.add_models();
    model.set_digest(raw_of(packed.digest));
    model.set_layout(raw_of(packed.layout));
    model.set_bytes(static_cast<std::uint64_t>(layout.total()) * sizeof(float));
  }
  opening.set_steps(static_cast<std::uint64_t>(reply.steps));
  opening.set_forward(static_cast<std::uint64_t>(reply.forward));
  opening.set_backward(static_cast<std::uint64_t>(reply.backward));
  opening.set_own_model(raw_of(reply.own_model));
  return digest_of(opening);
}

}  // namespace

std::string short_word(const std::string& text) {
  return printable(std::string_view(text).substr(0, kLongestWord));
}

void set_refusal(v1::Refusal& refusal, v1::Reason reason, const std::string& detail,
                 bool try_again) {
  refusal.set_reason(reason);
  refusal.set_detail(detail);
  refusal.set_try_again(try_again);
}

Desk::Desk(DeskSetup setup, Journal& journal, Spool& spool, const Clock& clock, Metrics& metrics)
    : setup_(std::move(setup)),
      journal_(journal),
      spool_(spool),
      clock_(clock),
      metrics_(metrics),
      committed_(journal.committed()),
      round_(committed_),
      samples_(setup_.layouts.size()) {
  const auto damaged = [](const std::string& why) {
    return Error(ErrorKind::run, fmt::format("the journal is damaged: {}", why),
                 "restore it from a copy, or start a new federation with another --out");
  };
  for (MemberRow& row : journal_.members()) {
    if (row.client < 0 || row.client >= std::ssize(setup_.layouts)) {
      throw damaged(fmt::format("there is no client {}", row.client));
    }
    auto member = std::make_unique<Member>();
    member->row = std::move(row);
    members_[member->row.name] = std::move(member);
  }
  if (const auto round = journal_.round(round_)) {
    attempt_ = round->attempt;
  }
  std::map<std::string, std::int64_t> wanted_models;
  for (OrderRow& row : journal_.orders()) {
    if (row.client < 0 || row.client >= std::ssize(setup_.layouts)) {
      throw damaged(fmt::format("order {} is of client {}", row.id, row.client));
    }
    const LayoutPtr& layout = setup_.layouts[static_cast<std::size_t>(row.client)];
    for (const PackedModel& model : row.reply.models) {
      if (model.layout != layout->digest()) {
        throw damaged(fmt::format("order {} has a model of another network", row.id));
      }
      wanted_models[model.digest] = 4 * layout->total();
    }
    // A bit that has changed in it would count like any other.
    if (row.verdict == OrderVerdict::accepted && !row.settled &&
        digest_of_accepted(row.reply, *layout) != row.reply.digest) {
      throw damaged(fmt::format("order {} has another reply than the one accepted", row.id));
    }
    orders_of_[row.client].insert(row.id);
    auto live = std::make_unique<Live>();
    live->row = std::move(row);
    const std::int64_t id = live->row.id;
    orders_[id] = std::move(live);
  }
  spool_.check(wanted_models);
}

Desk::~Desk() = default;

void Desk::log(const std::string& level, const std::string& event, const Json& fields) const {
  if (setup_.log) {
    setup_.log(level, event, fields);
  }
}

void Desk::fail(std::string_view point) const {
  if (setup_.fail) {
    setup_.fail(point);
  }
}

Desk::Member* Desk::known(const Identity& who) {
  if (who.federation != setup_.federation) {
    throw Refused{v1::WRONG_FEDERATION,
                  fmt::format("the certificate is of federation {}, this is {}",
                              short_word(who.federation), setup_.federation)};
  }
  const bool revoked = setup_.revoked && setup_.revoked(who.fingerprint);
  const auto found = members_.find(who.name);
  if (revoked) {
    if (found != members_.end() && found->second->row.fingerprint == who.fingerprint &&
        found->second->row.status != MemberStatus::revoked) {
      Member& member = *found->second;
      member.row.status = MemberStatus::revoked;
      journal_.put(member.row);
      log("warning", "revoked", {{"member", member.row.name}, {"client", member.row.client}});
      leave_orders(member, "its certificate is revoked");
    }
    throw Refused{v1::REVOKED,
                  fmt::format("the certificate of {} is revoked", short_word(who.name))};
  }
  if (found == members_.end()) {
    return nullptr;
  }
  Member& member = *found->second;
  member.heard = clock_.now();
  member.row.seen = clock_.wall();
  return &member;
}

Desk::Member& Desk::admit(const Identity& who) {
  Member* member = known(who);
  if (member == nullptr) {
    throw Refused{v1::NOT_ENROLLED,
                  fmt::format("{} is not among the members", short_word(who.name))};
  }
  return *member;
}

void Desk::check_process(Member& member, const std::string& process) {
  if (process.size() != kNonceBytes) {
    throw Refused{v1::WRONG_FIELDS,
                  fmt::format("process has {} bytes, expected {}", process.size(), kNonceBytes)};
  }
  if (member.gone()) {
    throw Refused{v1::NOT_ENROLLED, fmt::format("{} has left", member.row.name)};
  }
  if (member.row.status == MemberStatus::enrolled) {
    throw Refused{v1::NOT_NOW, "it has not joined yet", true};
  }
  if (member.process.empty() && std::ranges::count(member.superseded, process) == 0) {
    member.process = process;  // it joined before this server was started again
  }
  if (member.process != process) {
    throw Refused{v1::NAME_TAKEN, fmt::format("another process has joined as {}", member.row.name)};
  }
}

void Desk::note(const Member* member, const Identity& who, const Refused& refused,
                std::uint64_t order) {
  metrics_.add("winnow_replies_total",
               label("verdict", "refused") + "," + label("reason", name_of(refused.reason)));
  const std::int64_t times = member == nullptr ? ++strangers_ : member->refusals + 1;
  if (member != nullptr) {
    ++members_.at(member->row.name)->refusals;
  }
  if (times > kRefusalsNoted && times % kRefusalsNoted != 0) {
    return;
  }
  const std::string name = short_word(who.name);
  log(refused.try_again ? "info" : "warning", "refusal",
      {{"member", name},
       {"order", order},
       {"reason", name_of(refused.reason)},
       {"detail", refused.detail}});
  try {
    journal_.put(RefusalRow{clock_.wall(), member == nullptr ? -1 : member->row.client, name,
                            static_cast<std::int64_t>(std::min<std::uint64_t>(order, kMostCounted)),
                            name_of(refused.reason), refused.detail});
    if (member != nullptr) {
      ++members_.at(member->row.name)->row.refusals;
    }
  } catch (const Error& error) {
    broken(error);
  }
}

// The disk or the journal: nothing of the peer's, and nothing for its eyes.
Desk::Refused Desk::broken(const Error& error) {
  log("error", "failure", {{"detail", error.what()}});
  failure_ = failure_ ? failure_ : std::make_exception_ptr(error);
  changed_.notify_all();
  return {v1::NOT_NOW, "the server cannot write at present", true};
}

}  // namespace winnow::net

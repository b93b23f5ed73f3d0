// Who takes part: joining, leaving, and who is there.
#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/net/serve/desk_parts.h"
#include "winnow/net/serve/reply_bounds.h"
#include "winnow/train/lane.h"

namespace winnow::net {
namespace {

constexpr std::size_t kMostSuperseded = 16;

}  // namespace

void Desk::require_place(const Identity& who) const {
  if (!setup_.open) {
    throw Refused{v1::NOT_ENROLLED,
                  fmt::format("{} is not among the members", short_word(who.name))};
  }
  if (members_.size() >= setup_.layouts.size()) {
    throw Refused{v1::NOT_ENROLLED, fmt::format("all {} places are taken", setup_.layouts.size())};
  }
}

Desk::Member& Desk::enrol(const Identity& who) {
  const std::int64_t client = std::ssize(members_);
  auto member = std::make_unique<Member>();
  member->row = {.client = client, .name = who.name, .fingerprint = who.fingerprint};
  journal_.put(member->row);
  log("info", "enrol", {{"member", who.name}, {"client", client}});
  return *(members_[who.name] = std::move(member));
}

void Desk::check_hello(const Identity& who, const v1::Hello& hello, v1::Welcome& welcome) {
  if (hello.protocol_low() > kProtocol || hello.protocol_high() < kProtocol) {
    throw Refused{v1::WRONG_PROTOCOL,
                  fmt::format("it speaks protocols {} to {}, this server speaks {}",
                              hello.protocol_low(), hello.protocol_high(), kProtocol)};
  }
  welcome.set_protocol(kProtocol);
  if (hello.numerics() != setup_.numerics) {
    throw Refused{v1::WRONG_NUMERICS, fmt::format("it computes by rules {}, the federation by {}",
                                                  hello.numerics(), setup_.numerics)};
  }
  welcome.set_charter_hash(raw_of(setup_.charter_hash));
  welcome.set_charter(setup_.charter);
  if (!hello.charter().empty() && hello.charter() != raw_of(setup_.charter_hash)) {
    throw Refused{v1::WRONG_CHARTER,
                  fmt::format("{} has agreed to another charter; this one has the hash {}",
                              short_word(who.name), setup_.charter_hash)};
  }
  check_samples(hello.samples());
  if (hello.process().size() != kNonceBytes) {
    throw Refused{v1::WRONG_FIELDS, fmt::format("process has {} bytes, expected {}",
                                                hello.process().size(), kNonceBytes)};
  }
}

void Desk::check_samples(std::uint64_t samples) const {
  const auto most = static_cast<std::uint64_t>(setup_.samples_at_most);
  if ((most > 0 && samples > most) || samples > kMostCounted) {
    throw Refused{v1::WRONG_SAMPLES, fmt::format("samples = {}, expected at most {}", samples,
                                                 setup_.samples_at_most)};
  }
  // Better now than in the round in which it is asked.
  for (const Exchange& exchange : setup_.exchanges) {
    if (longest_call(exchange, static_cast<std::int64_t>(samples)) > kMostHead) {
      throw Refused{
          v1::WRONG_SAMPLES,
          fmt::format("samples = {}: a reply to '{}' could be longer than the {} bytes that a call "
                      "has room for",
                      samples, exchange.task, kMostHead)};
    }
  }
}

void Desk::welcome_member(Member& member, const Identity& who, const v1::Hello& hello,
                          std::int64_t expires) {
  if (std::ranges::count(member.superseded, hello.process()) > 0) {
    throw Refused{v1::NAME_TAKEN, fmt::format("another process has joined as {}", member.row.name)};
  }
  if (!member.process.empty() && member.process != hello.process()) {
    refuse_poll(member,
                {v1::NAME_TAKEN, fmt::format("another process has joined as {}", member.row.name)});
    member.superseded.push_back(member.process);
    if (member.superseded.size() > kMostSuperseded) {
      member.superseded.pop_front();
    }
    log("warning", "replaced", {{"member", member.row.name}, {"client", member.row.client}});
    if (member.delivery != nullptr && !member.delivery->busy) {
      member.delivery.reset();
    }
  }
  const bool news = member.process != hello.process() || member.row.status != MemberStatus::present;
  member.process = hello.process();
  member.expires = expires;
  member.row.fingerprint = who.fingerprint;
  member.row.samples = static_cast<std::int64_t>(hello.samples());
  member.row.status = MemberStatus::present;
  member.row.version = short_word(hello.version());
  member.row.arithmetic =
      fmt::format("{} {}", short_word(hello.arithmetic()), short_word(hello.fingerprint()));
  journal_.put(member.row);
  if (news) {
    log("info", "join",
        {{"member", member.row.name},
         {"client", member.row.client},
         {"samples", member.row.samples},
         {"version", member.row.version},
         {"arithmetic", member.row.arithmetic}});
  }
  changed_.notify_all();
}

v1::Welcome Desk::join(const Identity& who, const v1::Hello& hello, std::int64_t expires) {
  Visit visit(*this);
  v1::Welcome welcome;
  Member* member = nullptr;
  const auto refuse = [&](const Refused& refused) {
    set_refusal(*welcome.mutable_refusal(), refused.reason, refused.detail, refused.try_again);
    note(member, who, refused, 0);
  };
  try {
    member = known(who);
    if (member == nullptr) {
      require_place(who);
    }
    check_hello(who, hello, welcome);
    const bool agrees = !hello.charter().empty();
    if (member == nullptr && agrees) {
      member = &enrol(who);
    }
    // Of somebody new that has not agreed yet: the place that is free now.
    welcome.set_client(
        static_cast<std::uint32_t>(member == nullptr ? std::ssize(members_) : member->row.client));
    if (agrees && hello.samples() > 0) {
      welcome_member(*member, who, hello, expires);
    }
  } catch (const Refused& refused) {
    refuse(refused);
  } catch (const Error& error) {
    refuse(broken(error));
  }
  return welcome;
}

v1::Receipt Desk::leave(const Identity& who, const v1::Farewell& farewell) {
  Visit visit(*this);
  v1::Receipt receipt;
  Member* member = nullptr;
  const auto refuse = [&](const Refused& refused) {
    receipt.set_verdict(v1::REFUSED);
    set_refusal(*receipt.mutable_refusal(), refused.reason, refused.detail, refused.try_again);
    note(member, who, refused, 0);
  };
  try {
    // Also for another process that takes part under the name, which then ends.
    member = &admit(who);
    if (farewell.process().size() != kNonceBytes) {
      throw Refused{v1::WRONG_FIELDS, fmt::format("process has {} bytes, expected {}",
                                                  farewell.process().size(), kNonceBytes)};
    }
    if (!member->gone()) {
      member->row.status = MemberStatus::left;
      journal_.put(member->row);
      log("info", "leave", {{"member", member->row.name}, {"client", member->row.client}});
      leave_orders(*member, "it has left");
    }
    receipt.set_verdict(v1::ACCEPTED);
    changed_.notify_all();
  } catch (const Refused& refused) {
    refuse(refused);
  } catch (const Error& error) {
    refuse(broken(error));
  }
  return receipt;
}

bool Desk::all_told() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::none_of(members_, [](const auto& entry) {
    return entry.second->row.status == MemberStatus::present;
  });
}

std::vector<MemberView> Desk::members() const {
  const std::lock_guard lock(mutex_);
  std::vector<MemberView> views(members_.size());
  std::vector<const Member*> by_client;
  for (const auto& [name, member] : members_) {
    by_client.push_back(member.get());
  }
  std::ranges::sort(by_client, {}, [](const Member* member) { return member->row.client; });
  views.clear();
  for (const Member* member : by_client) {
    MemberView view{member->row, name_of(member->row.status), member->expires};
    if (member->row.status == MemberStatus::present) {
      const bool silent = !member->heard || static_cast<double>(clock_.now() - *member->heard) >
                                                setup_.patience * 1000.0;
      const auto own = orders_of_.find(member->row.client);
      const bool works =
          own != orders_of_.end() && std::ranges::any_of(own->second, [this](std::int64_t id) {
            const Live& order = *orders_.at(id);
            return order.row.verdict == OrderVerdict::open && order.handed_out >= 0;
          });
      view.status = works ? "working" : silent ? "away" : "present";
    }
    views.push_back(std::move(view));
  }
  return views;
}

std::int64_t Desk::joined() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::count_if(members_, [](const auto& entry) {
    return entry.second->row.status == MemberStatus::present;
  });
}

void Desk::await_members(std::int64_t count, const std::atomic<bool>* stop) {
  if (const std::int64_t present = joined(); present < count) {
    const std::lock_guard lock(mutex_);
    if (committed_ > 0) {
      log("warning", "waiting for members", {{"present", present}, {"needed", count}});
    }
  }
  while (joined() < count) {
    std::unique_lock lock(mutex_);
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    if (stop != nullptr && *stop) {
      throw Interrupted();
    }
    changed_.wait_for(lock, kGlanceOfDesk);
  }
}

std::vector<std::int64_t> Desk::samples() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> samples(setup_.layouts.size());
  for (const auto& [name, member] : members_) {
    samples[static_cast<std::size_t>(member->row.client)] = member->row.samples;
  }
  return samples;
}

}  // namespace winnow::net

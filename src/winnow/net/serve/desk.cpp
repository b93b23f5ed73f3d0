#include "winnow/net/serve/desk.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/firewall.h"
#include "winnow/net/serve/desk_parts.h"
#include "winnow/net/serve/reply_bounds.h"

namespace winnow::net {
namespace {

constexpr std::int64_t kLongestPoll = 25'000;  // milliseconds
constexpr std::size_t kMostSuperseded = 16;
constexpr std::size_t kLongestWord = 64;  // of what a member says of itself
// A member that is refused again and again does not fill the disk with the news of it.
constexpr std::int64_t kRefusalsNoted = 1000;
// Rows that a member knows of are forgotten in batches: each time costs a write to the disk.
constexpr std::int64_t kForgottenAtOnce = 16;
constexpr std::size_t kMostSettled = 10'000;  // told in one assignment
constexpr std::uint64_t kMostCounted = std::uint64_t{1} << 40;
constexpr std::size_t kFewestNorms = 5;  // of which a median says something

std::string short_word(const std::string& text) {
  return printable(std::string_view(text).substr(0, kLongestWord));
}

void set_refusal(v1::Refusal& refusal, v1::Reason reason, const std::string& detail,
                 bool try_again) {
  refusal.set_reason(reason);
  refusal.set_detail(detail);
  refusal.set_try_again(try_again);
}

// The reply without its models, which are not here yet.
Message numbers_of(const Message& reply) {
  Message numbers(reply.kind());
  for (const auto& [name, field] : reply.fields()) {
    if (!std::holds_alternative<State>(field) &&
        !std::holds_alternative<std::vector<State>>(field)) {
      numbers.set(name, field);
    }
  }
  return numbers;
}

std::string piece_of(const at::Tensor& bytes, std::uint64_t number) {
  const auto size = static_cast<std::uint64_t>(bytes.nbytes());
  const std::uint64_t begin = number * kPieceBytes;
  const auto* data = static_cast<const char*>(bytes.data_ptr());
  return {data + begin,
          static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, size - begin))};
}

}  // namespace

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

// Who it is. --------------------------------------------------------------------------------------

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
  const auto client = static_cast<std::int64_t>(members_.size());
  auto member = std::make_unique<Member>();
  member->row = {.client = client, .name = who.name, .fingerprint = who.fingerprint};
  journal_.put(member->row);
  log("info", "enrol", {{"member", who.name}, {"client", client}});
  return *(members_[who.name] = std::move(member));
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

// Joining. ----------------------------------------------------------------------------------------

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

// Waiting. ----------------------------------------------------------------------------------------

bool Desk::has_something(const Member& member, const Poll& poll) const {
  if (finished_ || shut_) {
    return true;
  }
  if (poll.working_on != 0) {
    const auto order = orders_.find(static_cast<std::int64_t>(poll.working_on));
    if (order == orders_.end() || order->second->row.client != member.row.client ||
        order->second->row.verdict != OrderVerdict::open) {
      return true;  // what became of it
    }
  }
  const auto own = orders_of_.find(member.row.client);
  return own != orders_of_.end() && std::ranges::any_of(own->second, [this](std::int64_t id) {
           const Live& order = *orders_.at(id);
           return order.row.verdict == OrderVerdict::open && order.task.has_value();
         });
}

v1::Assignment Desk::assignment_for(const Member& member, const Poll& poll) const {
  v1::Assignment assignment;
  assignment.set_committed_round(static_cast<std::uint32_t>(committed_));
  assignment.set_attempt(static_cast<std::uint32_t>(attempt_));
  const auto tell = [&](std::uint64_t order, OrderVerdict verdict) {
    v1::Settled& settled = *assignment.add_settled();
    settled.set_order(order);
    settled.set_verdict(static_cast<v1::Verdict>(verdict));
  };
  bool knows_work = poll.working_on == 0;
  const Live* open = nullptr;
  if (const auto own = orders_of_.find(member.row.client); own != orders_of_.end()) {
    for (const std::int64_t id : own->second) {
      const Live& order = *orders_.at(id);
      const bool works = static_cast<std::uint64_t>(id) == poll.working_on;
      knows_work = knows_work || works;
      if (order.row.verdict == OrderVerdict::open) {
        open = order.task ? &order : open;
      } else if ((works || poll.settled_up_to <= static_cast<std::uint64_t>(order.row.horizon)) &&
                 static_cast<std::size_t>(assignment.settled_size()) < kMostSettled) {
        tell(static_cast<std::uint64_t>(id), order.row.verdict);
      }
    }
  }
  if (!knows_work) {
    tell(poll.working_on, OrderVerdict::absent);
  }
  if (finished_) {
    assignment.mutable_finished()->set_model_hash(*finished_);
  } else if (open != nullptr && !shut_) {
    *assignment.mutable_task() = *open->task;
    const std::int64_t left = std::max<std::int64_t>(0, deadline_ - clock_.now());
    assignment.mutable_task()->set_seconds(static_cast<std::uint32_t>(left / 1000));
  } else {
    assignment.mutable_idle();
  }
  return assignment;
}

void Desk::answer_poll(Member& member) {
  if (!member.poll) {
    return;
  }
  const Poll poll = std::move(*member.poll);
  member.poll.reset();
  v1::Assignment assignment = assignment_for(member, poll);
  if (assignment.has_task()) {
    Live& order = *orders_.at(static_cast<std::int64_t>(assignment.task().order().number()));
    order.handed_out = order.handed_out < 0 ? clock_.now() : order.handed_out;
    metrics_.add("winnow_bytes_total", label("direction", "down"),
                 static_cast<double>(assignment.task().head().size()));
  }
  // One that is at work may not look at the answer: it is told again when it has done it.
  if (assignment.has_finished() && poll.working_on == 0 &&
      member.row.status == MemberStatus::present) {
    member.row.status = MemberStatus::done;
    try {
      journal_.put(member.row);
    } catch (const Error& error) {
      broken(error);
    }
  }
  ready_.emplace_back(poll.answer, std::move(assignment));
}

void Desk::refuse_poll(Member& member, const Refused& refused) {
  if (!member.poll) {
    return;
  }
  v1::Assignment assignment;
  set_refusal(*assignment.mutable_refusal(), refused.reason, refused.detail, refused.try_again);
  ready_.emplace_back(std::move(member.poll->answer), std::move(assignment));
  member.poll.reset();
}

void Desk::acknowledge(const Member& member, std::uint64_t settled_up_to) {
  const auto own = orders_of_.find(member.row.client);
  if (own == orders_of_.end()) {
    return;
  }
  const auto is_known = [&](std::int64_t id) {
    const OrderRow& row = orders_.at(id)->row;
    return row.settled && static_cast<std::uint64_t>(row.horizon) < settled_up_to;
  };
  if (std::ranges::count_if(own->second, is_known) < kForgottenAtOnce) {
    return;
  }
  journal_.acknowledge(member.row.client,
                       static_cast<std::int64_t>(std::min<std::uint64_t>(
                           settled_up_to, static_cast<std::uint64_t>(*own->second.rbegin()) + 1)));
  std::erase_if(own->second, [&](std::int64_t id) {
    const bool known = is_known(id);
    if (known) {
      orders_.erase(id);
    }
    return known;
  });
}

void Desk::next(const Identity& who, const v1::Report& report, Answer answer) {
  Visit visit(*this);
  Member* member = nullptr;
  const auto refuse = [&](const Refused& refused) {
    note(member, who, refused, 0);
    v1::Assignment assignment;
    set_refusal(*assignment.mutable_refusal(), refused.reason, refused.detail, refused.try_again);
    ready_.emplace_back(answer, std::move(assignment));
  };
  try {
    member = &admit(who);
    check_process(*member, report.process());
    expire();
    acknowledge(*member, report.settled_up_to());
    answer_poll(*member);  // an earlier one, whose caller has given up
    member->poll = Poll{answer, clock_.now(), report.working_on(), report.settled_up_to()};
    if (has_something(*member, *member->poll)) {
      answer_poll(*member);
    }
  } catch (const Refused& refused) {
    refuse(refused);
  } catch (const Error& error) {
    refuse(broken(error));
  }
}

void Desk::tick() {
  Visit visit(*this);
  try {
    expire();
  } catch (const Error& error) {
    broken(error);
  }
  for (auto& [name, member] : members_) {
    if (member->poll && clock_.now() - member->poll->since >= kLongestPoll) {
      answer_poll(*member);
    }
  }
}

// Models down. ------------------------------------------------------------------------------------

v1::Piece Desk::fetch(const Identity& who, const v1::PieceRequest& request) {
  Visit visit(*this);
  v1::Piece piece;
  Member* member = nullptr;
  const auto refuse = [&](const Refused& refused) {
    set_refusal(*piece.mutable_refusal(), refused.reason, refused.detail, refused.try_again);
    note(member, who, refused, 0);
  };
  try {
    member = &admit(who);
    if (member->gone()) {
      throw Refused{v1::NOT_ENROLLED, fmt::format("{} has left", member->row.name)};
    }
    at::Tensor bytes;
    if (setup_.public_images.defined() && request.digest() == raw_of(setup_.public_digest)) {
      bytes = setup_.public_images;
    } else {
      // Only what a task of the member's own refers to.
      const auto own = orders_of_.find(member->row.client);
      const bool asked =
          own != orders_of_.end() && std::ranges::any_of(own->second, [&](std::int64_t id) {
            const auto& task = orders_.at(id)->task;
            return task && std::ranges::any_of(task->models(), [&](const v1::Model& model) {
                     return model.digest() == request.digest();
                   });
          });
      const auto shown = shown_.find(hexadecimal_of(request.digest().substr(0, kDigestBytes)));
      if (!asked || shown == shown_.end()) {
        throw Refused{v1::NOT_NOW, "no task of it refers to such a model at present", true};
      }
      bytes = shown->second.flat;
    }
    const std::uint64_t pieces =
        std::max<std::uint64_t>(1, (bytes.nbytes() + kPieceBytes - 1) / kPieceBytes);
    if (request.number() >= pieces) {
      throw Refused{v1::WRONG_LENGTH,
                    fmt::format("piece {}: there are {}", request.number(), pieces)};
    }
    piece.set_data(piece_of(bytes, request.number()));
    metrics_.add("winnow_bytes_total", label("direction", "down"),
                 static_cast<double>(piece.data().size()));
  } catch (const Refused& refused) {
    refuse(refused);
  } catch (const Error& error) {
    refuse(broken(error));
  }
  return piece;
}

// Replies up. -------------------------------------------------------------------------------------

template <typename Body>
v1::Receipt Desk::receipt_for(const Identity& who, const v1::OrderId& id,
                              const std::string& process, const Body& body) {
  Visit visit(*this);
  v1::Receipt receipt;
  Member* member = nullptr;
  const auto refuse = [&](const Refused& refused) {
    receipt.Clear();
    receipt.set_verdict(refused.reason == v1::LATE ? v1::ABSENT
                        : refused.try_again        ? v1::OPEN
                                                   : v1::REFUSED);
    set_refusal(*receipt.mutable_refusal(), refused.reason, refused.detail, refused.try_again);
    note(member, who, refused, id.number());
    const auto order = orders_.find(static_cast<std::int64_t>(id.number()));
    if (member == nullptr || order == orders_.end() ||
        order->second->row.client != member->row.client ||
        order->second->row.verdict != OrderVerdict::open) {
      return;
    }
    order->second->refused_once = order->second->refused_once || refused.reason == v1::CORRUPTED;
    if (refused.decides) {
      decide({order->first}, OrderVerdict::refused, name_of(refused.reason));
    }
  };
  try {
    member = &admit(who);
    check_process(*member, process);
    body(visit, *member, receipt);
  } catch (const Refused& refused) {
    try {
      refuse(refused);
    } catch (const Error& error) {
      broken(error);
    }
  } catch (const Error& error) {
    refuse(broken(error));
  }
  return receipt;
}

Desk::Live& Desk::order_of(const Member& member, const v1::OrderId& id) {
  expire();
  const auto found = id.number() > static_cast<std::uint64_t>(INT64_MAX)
                         ? orders_.end()
                         : orders_.find(static_cast<std::int64_t>(id.number()));
  const auto is = [&id](std::int64_t round, std::int64_t attempt) {
    return id.round() == round && id.attempt() == attempt;
  };
  if (found == orders_.end() || found->second->row.client != member.row.client) {
    if (!is(round_, attempt_)) {
      throw Refused{v1::WRONG_ROUND,
                    fmt::format("order {} is of round {}, attempt {}; under way is round {}, "
                                "attempt {}",
                                id.number(), id.round() + 1, id.attempt(), round_ + 1, attempt_)};
    }
    throw Refused{v1::NOT_ASKED,
                  fmt::format("there is no order {} for {}", id.number(), member.row.name)};
  }
  const OrderRow& row = found->second->row;
  if (!is(row.round, row.attempt) || id.ask() != row.ask) {
    throw Refused{v1::WRONG_ROUND, fmt::format("order {} is of round {}, attempt {}, ask {}",
                                               id.number(), row.round + 1, row.attempt, row.ask)};
  }
  if (id.nonce() != row.nonce) {
    throw Refused{v1::WRONG_NONCE, fmt::format("order {} has another nonce", id.number())};
  }
  return *found->second;
}

void Desk::require_open(const Live& order) const {
  if (order.row.verdict == OrderVerdict::absent) {
    throw Refused{v1::LATE, fmt::format("order {} went on without it", order.row.id)};
  }
  if (order.row.verdict == OrderVerdict::refused) {
    throw Refused{v1::DUPLICATE,
                  fmt::format("order {} was refused already: {}", order.row.id, order.row.reason)};
  }
  if (!order.task) {
    throw Refused{v1::NOT_NOW, "the server was started again and has not come to it yet", true};
  }
}

Desk::Delivery& Desk::delivery_of(Member& member, const Live& order) const {
  if (member.delivery == nullptr || member.delivery->order != order.row.id) {
    throw Refused{v1::NOT_NOW, "it has to be opened first", true};
  }
  if (member.delivery->busy) {
    throw Refused{v1::NOT_NOW, "an earlier call is still at work on it", true};
  }
  return *member.delivery;
}

bool Desk::holds(const std::string& digest, std::int64_t bytes) const {
  if (spool_.holds(digest, bytes)) {
    return true;
  }
  const auto shown = shown_.find(digest);
  return shown != shown_.end() && shown->second.bytes() == bytes;
}

std::string Desk::inspect(const Live& order, const v1::Opening& opening) const {
  const auto refuse = [](v1::Reason reason, const std::string& why) {
    throw Refused{reason, why, false, true};
  };
  const auto client = static_cast<std::size_t>(order.row.client);
  const std::int64_t samples = samples_.at(client);
  const LayoutPtr& layout = setup_.layouts.at(client);
  const std::vector<FieldRule>& rules = exchange_of(order.row.exchange, setup_.exchanges).answers;
  if (std::ssize(opening.head()) > longest_head(rules, samples)) {
    refuse(v1::OVERSIZED, fmt::format("a head of {} bytes, expected at most {}",
                                      opening.head().size(), longest_head(rules, samples)));
  }
  if (opening.models_size() > most_models(rules, samples)) {
    refuse(v1::OVERSIZED, fmt::format("{} models, expected at most {}", opening.models_size(),
                                      most_models(rules, samples)));
  }
  if (!opening.own_model().empty() && opening.own_model().size() != kDigestBytes) {
    refuse(v1::WRONG_FIELDS, fmt::format("own_model has {} bytes, expected {}",
                                         opening.own_model().size(), kDigestBytes));
  }
  for (const auto& [name, count] : {std::pair{"steps", opening.steps()},
                                    {"forward", opening.forward()},
                                    {"backward", opening.backward()}}) {
    if (count > kMostCounted) {
      refuse(v1::OUT_OF_RANGE,
             fmt::format("{} = {}, expected at most {}", name, count, kMostCounted));
    }
  }
  Parcel parcel{opening.head()};
  const auto bytes = static_cast<std::uint64_t>(layout->total()) * sizeof(float);
  for (int place = 0; place < opening.models_size(); ++place) {
    const v1::Model& model = opening.models(place);
    if (model.digest().size() != kDigestBytes || model.layout().size() != kDigestBytes) {
      refuse(v1::WRONG_FIELDS,
             fmt::format("model {} has no digest of {} bytes", place, kDigestBytes));
    }
    if (model.layout() != raw_of(layout->digest())) {
      refuse(v1::WRONG_LAYOUT, fmt::format("model {} has the layout of another network", place));
    }
    if (model.bytes() != bytes) {
      refuse(model.bytes() > bytes ? v1::OVERSIZED : v1::WRONG_LENGTH,
             fmt::format("model {} of {} bytes, expected {}", place, model.bytes(), bytes));
    }
    parcel.models.push_back({hexadecimal_of(model.digest()), hexadecimal_of(model.layout())});
  }
  std::string first;
  Known known{.layouts = {layout}, .samples = samples};
  known.model = [&](const std::string& digest) -> std::optional<State> {
    first = first.empty() ? digest : first;
    return State{layout, {}};  // its values come later
  };
  try {
    const Message reply = unpack_reply(parcel, order.row.exchange, setup_.exchanges, known);
    if (const auto refusal = judge(reply, Message(order.row.exchange), samples, setup_.exchanges)) {
      refuse(reason_of(refusal->reason), refusal->detail);
    }
    if (setup_.strict && !usable(numbers_of(reply), rules)) {
      refuse(v1::NOT_FINITE, "it holds numbers that are not finite");
    }
  } catch (const Misfit& misfit) {
    refuse(reason_of(misfit.reason()), misfit.what());
  }
  return first;
}

void Desk::list_missing(const Delivery& delivery, v1::Receipt& receipt) const {
  receipt.set_verdict(v1::OPEN);
  for (std::size_t place = 0; place < delivery.parts.size(); ++place) {
    const Part& part = delivery.parts[place];
    if (part.incoming != nullptr && !part.incoming->complete()) {
      v1::Missing& missing = *receipt.add_missing();
      missing.set_model(static_cast<std::uint32_t>(place));
      missing.set_first(part.incoming->first_missing());
    }
  }
}

v1::Receipt Desk::open(const Identity& who, const v1::Opening& opening) {
  return receipt_for(
      who, opening.order(), opening.process(), [&](Visit&, Member& member, v1::Receipt& receipt) {
        const Live& order = order_of(member, opening.order());
        const std::string digest = digest_of(opening);
        if (order.row.verdict == OrderVerdict::accepted) {
          if (digest != order.row.reply.digest) {
            throw Refused{v1::DUPLICATE,
                          fmt::format("order {} was answered with another reply", order.row.id)};
          }
          receipt.set_verdict(v1::ACCEPTED);
          return;
        }
        require_open(order);
        if (member.delivery != nullptr && member.delivery->busy) {
          throw Refused{v1::NOT_NOW, "an earlier call is still at work on it", true};
        }
        if (member.delivery == nullptr || member.delivery->order != order.row.id ||
            member.delivery->digest != digest) {
          member.delivery.reset();
          auto delivery = std::make_shared<Delivery>();
          delivery->first_model = inspect(order, opening);
          delivery->order = order.row.id;
          delivery->digest = digest;
          delivery->opening = opening;
          for (const v1::Model& model : opening.models()) {
            Part part{hexadecimal_of(model.digest()), hexadecimal_of(model.layout()),
                      static_cast<std::int64_t>(model.bytes())};
            if (!holds(part.digest, part.bytes)) {
              try {
                part.incoming = spool_.receive(part.bytes);
              } catch (const Error& error) {
                log("error", "spool", {{"detail", error.what()}});
                throw Refused{v1::NOT_NOW, "the server has no room for it at present", true};
              }
            }
            delivery->parts.push_back(std::move(part));
          }
          member.delivery = std::move(delivery);
          metrics_.add("winnow_bytes_total", label("direction", "up"),
                       static_cast<double>(opening.head().size()));
        }
        list_missing(*member.delivery, receipt);
      });
}

v1::Receipt Desk::put(const Identity& who, const v1::Portion& portion) {
  return receipt_for(
      who, portion.order(), portion.process(),
      [&](Visit& visit, Member& member, v1::Receipt& receipt) {
        const Live& order = order_of(member, portion.order());
        if (order.row.verdict == OrderVerdict::accepted) {
          receipt.set_verdict(v1::ACCEPTED);
          return;
        }
        require_open(order);
        std::ignore = delivery_of(member, order);
        const std::shared_ptr<Delivery> delivery = member.delivery;
        const auto refuse = [](v1::Reason reason, const std::string& why) {
          throw Refused{reason, why, false, true};
        };
        if (portion.model() >= delivery->parts.size()) {
          refuse(v1::WRONG_FIELDS, fmt::format("a piece of model {}, there are {}", portion.model(),
                                               delivery->parts.size()));
        }
        receipt.set_verdict(v1::OPEN);
        IncomingModel* incoming = delivery->parts[portion.model()].incoming.get();
        if (incoming == nullptr) {
          return;  // it is held
        }
        if (portion.number() >= incoming->pieces()) {
          refuse(v1::OVERSIZED, fmt::format("piece {} of model {}, there are {}", portion.number(),
                                            portion.model(), incoming->pieces()));
        }
        const std::size_t expected = incoming->length_of(portion.number());
        if (portion.data().size() != expected) {
          refuse(portion.data().size() > expected ? v1::OVERSIZED : v1::WRONG_LENGTH,
                 fmt::format("piece {} of {} bytes, expected {}", portion.number(),
                             portion.data().size(), expected));
        }
        const Busy busy(*delivery);
        {
          const Unlocked unlocked(visit);
          try {
            incoming->put(portion.number(), portion.data());
          } catch (const Error& error) {
            log("error", "spool", {{"detail", error.what()}});
            throw Refused{v1::NOT_NOW, "the server cannot store it at present", true};
          }
        }
        metrics_.add("winnow_bytes_total", label("direction", "up"),
                     static_cast<double>(portion.data().size()));
        fail(kAfterPiece);
        if (setup_.strict && !incoming->finite() &&
            wants_finite_models(
                exchange_of(orders_.at(delivery->order)->row.exchange, setup_.exchanges).answers)) {
          refuse(v1::NOT_FINITE,
                 fmt::format("model {} holds values that are not finite", portion.model()));
        }
      });
}

void Desk::store(Delivery& delivery) const {
  for (Part& part : delivery.parts) {
    if (part.incoming != nullptr) {
      spool_.keep(*part.incoming, part.digest);
    } else if (!spool_.holds(part.digest, part.bytes)) {
      State shown;
      {
        const std::lock_guard lock(mutex_);
        const auto found = shown_.find(part.digest);
        if (found == shown_.end()) {
          throw Refused{v1::NOT_NOW, "the model is not held any more", true};
        }
        shown = found->second;
      }
      spool_.keep(shown, part.digest);
    }
  }
}

std::optional<double> Desk::distance(const Delivery& delivery, const std::string& sent,
                                     const LayoutPtr& layout) const {
  if (setup_.norm_band <= 0.0 || delivery.first_model.empty() || sent.empty()) {
    return std::nullopt;
  }
  State before;
  {
    const std::lock_guard lock(mutex_);
    const auto shown = shown_.find(sent);
    if (shown == shown_.end() || !(*shown->second.layout == *layout)) {
      return std::nullopt;
    }
    before = shown->second;
  }
  return parameter_distance(spool_.map(delivery.first_model, layout), before);
}

void Desk::check_norm(const Live& order, double distance) const {
  std::vector<double> earlier = journal_.norms(order.row.round, order.row.exchange);
  if (earlier.size() < kFewestNorms || !std::isfinite(distance)) {
    return;
  }
  const auto middle = earlier.begin() + static_cast<std::ptrdiff_t>(earlier.size() / 2);
  std::ranges::nth_element(earlier, middle);
  if (distance > setup_.norm_band * *middle) {
    throw Refused{v1::NORM_BAND,
                  fmt::format("the model is {:.4g} from the one sent, the median of earlier rounds "
                              "is {:.4g}",
                              distance, *middle),
                  false, true};
  }
}

void Desk::accept(Member& member, Live& order, const Delivery& delivery,
                  const std::optional<double>& norm) {
  OrderRow row = order.row;
  row.verdict = OrderVerdict::accepted;
  row.reason.clear();
  const v1::Opening& opening = delivery.opening;
  row.reply = {.head = opening.head(),
               .digest = delivery.digest,
               .steps = static_cast<std::int64_t>(opening.steps()),
               .forward = static_cast<std::int64_t>(opening.forward()),
               .backward = static_cast<std::int64_t>(opening.backward()),
               .own_model = hexadecimal_of(opening.own_model())};
  for (const Part& part : delivery.parts) {
    row.reply.models.push_back({part.digest, part.layout});
    row.reply.bytes += part.bytes;
  }
  journal_.accept(row, norm && std::isfinite(*norm) ? std::optional(NormRow{row.exchange, *norm})
                                                    : std::nullopt);
  order.row = std::move(row);
  member.delivery.reset();
  metrics_.add("winnow_replies_total",
               label("verdict", "accepted") + "," + label("reason", "none"));
  if (order.handed_out >= 0) {
    metrics_.observe("winnow_task_seconds", label("kind", order.row.exchange),
                     static_cast<double>(clock_.now() - order.handed_out) / 1000.0);
  }
  changed_.notify_all();
  fail(kAfterVerdict);
}

v1::Receipt Desk::seal(const Identity& who, const v1::Sealing& sealing) {
  return receipt_for(
      who, sealing.order(), sealing.process(),
      [&](Visit& visit, Member& member, v1::Receipt& receipt) {
        const Live& asked = order_of(member, sealing.order());
        if (asked.row.verdict == OrderVerdict::accepted) {
          receipt.set_verdict(v1::ACCEPTED);
          return;
        }
        require_open(asked);
        std::ignore = delivery_of(member, asked);
        const std::shared_ptr<Delivery> delivery = member.delivery;
        list_missing(*delivery, receipt);
        if (receipt.missing_size() > 0) {
          return;
        }
        for (std::size_t place = 0; place < delivery->parts.size(); ++place) {
          Part& part = delivery->parts[place];
          if (part.incoming != nullptr && part.incoming->digest() != part.digest) {
            part.incoming = nullptr;  // gives its room back first
            member.delivery.reset();
            throw Refused{v1::CORRUPTED,
                          fmt::format("model {} was changed on the way: its digest differs", place),
                          true};
          }
        }
        const LayoutPtr layout = setup_.layouts.at(static_cast<std::size_t>(asked.row.client));
        const std::string sent =
            asked.task->models_size() > 0 ? hexadecimal_of(asked.task->models(0).digest()) : "";
        const bool look =
            setup_.strict &&
            wants_finite_models(exchange_of(asked.row.exchange, setup_.exchanges).answers);
        const Busy busy(*delivery);
        std::optional<double> norm;
        bool finite = true;
        {
          const Unlocked unlocked(visit);
          try {
            store(*delivery);
            for (const Part& part : delivery->parts) {
              finite = finite && (!look || part.incoming != nullptr ||
                                  all_finite(spool_.map(part.digest, layout)));
            }
            norm = distance(*delivery, sent, layout);
          } catch (const Error& error) {
            log("error", "spool", {{"detail", error.what()}});
            throw Refused{v1::NOT_NOW, "the server cannot store it at present", true};
          }
        }
        fail(kAfterRename);
        Live& order = order_of(member, sealing.order());  // time has passed
        require_open(order);
        if (!finite) {
          throw Refused{v1::NOT_FINITE, "it holds values that are not finite", false, true};
        }
        if (norm) {
          check_norm(order, *norm);
        }
        accept(member, order, *delivery, norm);
        receipt.set_verdict(v1::ACCEPTED);
      });
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

}  // namespace winnow::net

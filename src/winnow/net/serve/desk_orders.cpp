// The server's side: putting out tasks and awaiting what becomes of them.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/sha256.h"
#include "winnow/net/serve/desk_parts.h"
#include "winnow/train/lane.h"

namespace winnow::net {
namespace {

v1::Task task_message(const Outgoing& outgoing, const std::map<std::string, State>& models) {
  v1::Task task;
  task.set_head(outgoing.parcel.head);
  for (const PackedModel& packed : outgoing.parcel.models) {
    v1::Model& model = *task.add_models();
    model.set_digest(raw_of(packed.digest));
    model.set_layout(raw_of(packed.layout));
    model.set_bytes(static_cast<std::uint64_t>(models.at(packed.digest).bytes()));
  }
  return task;
}

std::string digest_of_task(const Outgoing& outgoing) {
  Parcel parcel{outgoing.parcel.head};
  for (const PackedModel& model : outgoing.parcel.models) {
    parcel.models.push_back({model.digest, model.layout});
  }
  return sha256_hex(bytes_of(parcel));
}

}  // namespace

void Desk::begin(std::int64_t round, std::int64_t attempt, std::vector<std::int64_t> samples) {
  const std::lock_guard lock(mutex_);
  round_ = round;
  attempt_ = attempt;
  samples_ = std::move(samples);
  samples_.resize(setup_.layouts.size());
  ask_ = -1;
  shown_.clear();
}

std::vector<std::int64_t> Desk::put_out(std::int64_t ask, const std::vector<Outgoing>& orders,
                                        const std::map<std::string, State>& models) {
  Visit visit(*this);
  if (failure_) {
    std::rethrow_exception(failure_);
  }
  std::map<std::int64_t, std::int64_t> known;  // numbers by client
  for (const auto& [id, order] : orders_) {
    const OrderRow& row = order->row;
    if (row.round == round_ && row.attempt == attempt_ && row.ask == ask) {
      known[row.client] = id;
    }
  }
  const std::int64_t now = clock_.now();
  const auto limit = static_cast<std::int64_t>(setup_.deadline * 1000.0);
  if (known.empty() && !orders.empty()) {
    fail(kBeforeOrder);
    std::vector<OrderRow> rows;
    for (const Outgoing& outgoing : orders) {
      rows.push_back({.round = round_,
                      .attempt = attempt_,
                      .ask = ask,
                      .client = outgoing.client,
                      .exchange = outgoing.exchange,
                      .nonce = random_bytes(kNonceBytes),
                      .task_digest = digest_of_task(outgoing)});
    }
    const std::int64_t wall = clock_.wall();
    journal_.put(AskRow{round_, attempt_, ask, wall, wall + limit}, rows);
    for (OrderRow& row : rows) {
      const std::int64_t id = row.id;
      known[row.client] = id;
      orders_of_[row.client].insert(id);
      auto live = std::make_unique<Live>();
      live->row = std::move(row);
      orders_[id] = std::move(live);
    }
    deadline_ = now + limit;
    fail(kAfterOrder);
  } else {
    // After a restart: what is left of the time, and enough to come back.
    const auto row = journal_.ask(round_, attempt_, ask);
    const std::int64_t left = row ? row->deadline - clock_.wall() : limit;
    const auto least = std::min(limit, static_cast<std::int64_t>(setup_.patience * 1000.0));
    deadline_ = now + std::clamp(left, least, limit);
  }
  const auto differs = [&] {
    return Error(ErrorKind::internal,
                 fmt::format("this build runs round {} differently from the one that began it: ask "
                             "{} has other tasks",
                             round_ + 1, ask),
                 "serve the federation with the version and on the machine that began the round");
  };
  if (known.size() != orders.size()) {
    throw differs();
  }
  for (const auto& [digest, model] : models) {
    shown_.try_emplace(digest, State{model.layout, model.flat.to(at::kCPU).contiguous()});
  }
  ask_ = ask;
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> gone;
  std::map<std::int64_t, Member*> by_client;
  for (auto& [name, member] : members_) {
    by_client[member->row.client] = member.get();
  }
  for (const Outgoing& outgoing : orders) {
    const auto found = known.find(outgoing.client);
    if (found == known.end() ||
        orders_.at(found->second)->row.task_digest != digest_of_task(outgoing)) {
      throw differs();
    }
    Live& order = *orders_.at(found->second);
    order.task = task_message(outgoing, shown_);
    v1::OrderId& id = *order.task->mutable_order();
    id.set_number(static_cast<std::uint64_t>(order.row.id));
    id.set_round(static_cast<std::uint32_t>(order.row.round));
    id.set_attempt(static_cast<std::uint32_t>(order.row.attempt));
    id.set_ask(static_cast<std::uint32_t>(order.row.ask));
    id.set_nonce(order.row.nonce);
    ids.push_back(order.row.id);
    Member* member = by_client.contains(outgoing.client) ? by_client[outgoing.client] : nullptr;
    if (order.row.verdict != OrderVerdict::open) {
      continue;
    }
    if (member == nullptr || member->gone()) {
      gone.push_back(order.row.id);
    } else {
      answer_poll(*member);
    }
  }
  if (!gone.empty()) {
    decide(gone, OrderVerdict::absent, name_of(AbsenceReason::left));
  }
  return ids;
}

void Desk::decide(const std::vector<std::int64_t>& orders, OrderVerdict verdict,
                  const std::string& reason) {
  std::vector<OrderRow> rows;
  for (const std::int64_t id : orders) {
    rows.push_back(orders_.at(id)->row);
    if (rows.back().verdict == OrderVerdict::accepted) {
      // The member may have heard that already, and is told until it knows of later orders.
      rows.back().horizon = orders_.rbegin()->first;
    }
    rows.back().verdict = verdict;
    rows.back().reason = verdict == OrderVerdict::absent && orders_.at(id)->refused_once
                             ? name_of(AbsenceReason::refused)
                             : reason;
    rows.back().reply.models.clear();
    rows.back().reply.head.clear();
  }
  journal_.decide(rows);
  for (OrderRow& row : rows) {
    const std::int64_t id = row.id;
    if (verdict == OrderVerdict::absent) {
      metrics_.add("winnow_replies_total",
                   label("verdict", "absent") + "," + label("reason", row.reason));
      log("info", "absent",
          {{"client", row.client}, {"round", row.round + 1}, {"reason", row.reason}});
    }
    orders_.at(id)->row = std::move(row);
    for (auto& [name, member] : members_) {
      if (member->row.client != orders_.at(id)->row.client) {
        continue;
      }
      if (member->delivery != nullptr && member->delivery->order == id && !member->delivery->busy) {
        member->delivery.reset();
      }
      if (member->poll && member->poll->working_on == static_cast<std::uint64_t>(id)) {
        answer_poll(*member);
      }
    }
  }
  changed_.notify_all();
}

void Desk::expire() {
  if (ask_ < 0 || clock_.now() < deadline_) {
    return;
  }
  std::vector<std::int64_t> open;
  for (const auto& [id, order] : orders_) {
    const OrderRow& row = order->row;
    if (row.round == round_ && row.attempt == attempt_ && row.ask == ask_ &&
        row.verdict == OrderVerdict::open) {
      open.push_back(id);
    }
  }
  if (!open.empty()) {
    decide(open, OrderVerdict::absent, name_of(AbsenceReason::silent));
  }
}

void Desk::leave_orders(Member& member, const std::string& why) {
  refuse_poll(member, {v1::NOT_ENROLLED, why});
  member.process.clear();
  std::vector<std::int64_t> open;
  for (const std::int64_t id : orders_of_[member.row.client]) {
    const Live& order = *orders_.at(id);
    if (order.row.verdict == OrderVerdict::open && order.task) {
      open.push_back(id);
    }
  }
  if (!open.empty()) {
    decide(open, OrderVerdict::absent, name_of(AbsenceReason::left));
  }
}

OrderRow Desk::await(std::int64_t order, const std::atomic<bool>* stop) {
  for (;;) {
    Visit visit(*this);
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    if (stop != nullptr && *stop) {
      throw Interrupted();
    }
    expire();
    if (const OrderRow& row = orders_.at(order)->row; row.verdict != OrderVerdict::open) {
      return row;
    }
    if (ready_.empty()) {
      changed_.wait_for(visit.lock(), kGlanceOfDesk);
    }
  }
}

void Desk::refuse_by_method(std::int64_t order, const std::string& why) {
  Visit visit(*this);
  const Live& live = *orders_.at(order);
  for (auto& [name, member] : members_) {
    if (member->row.client == live.row.client) {
      note(member.get(), {setup_.federation, name, {}}, {v1::REFUSED_BY_METHOD, printable(why)},
           static_cast<std::uint64_t>(order));
    }
  }
  decide({order}, OrderVerdict::refused, name_of(v1::REFUSED_BY_METHOD));
}

State Desk::model(const std::string& digest, const LayoutPtr& layout) const {
  return spool_.map(digest, layout);
}

std::set<std::string> Desk::wanted() const {
  std::set<std::string> digests;
  for (const auto& [id, order] : orders_) {
    if (!order->row.settled) {
      for (const PackedModel& model : order->row.reply.models) {
        digests.insert(model.digest);
      }
    }
  }
  return digests;
}

void Desk::folded() {
  fail(kAfterFold);
  const std::lock_guard lock(mutex_);
  shown_.clear();
}

void Desk::take_back(const std::string& why) {
  Visit visit(*this);
  const std::int64_t horizon = journal_.take_back(round_, attempt_);
  for (auto& [id, order] : orders_) {
    OrderRow& row = order->row;
    if (row.round == round_ && row.attempt == attempt_) {
      row.verdict = OrderVerdict::absent;
      row.reason = "taken_back";
      row.horizon = horizon;
      row.reply.head.clear();
      row.reply.models.clear();
      order->task.reset();
    }
  }
  Json fields{{"round", round_ + 1}, {"attempt", attempt_}};
  if (!why.empty()) {
    fields["because"] = why;
  }
  log("warning", "taken back", fields);
  ++attempt_;
  ask_ = -1;
  shown_.clear();
  spool_.keep_only(wanted());
}

void Desk::settle(std::int64_t rounds) {
  Visit visit(*this);
  if (rounds == committed_) {
    return;
  }
  if (rounds < committed_) {
    throw Error(ErrorKind::run,
                fmt::format("the journal has {} rounds that are done, the checkpoint {}",
                            committed_, rounds),
                "members have gone on: restore the checkpoint, or start a new federation with "
                "another --out");
  }
  if (rounds != committed_ + 1 || !journal_.round(committed_)) {
    throw Error(
        ErrorKind::run,
        fmt::format("the checkpoint has {} rounds, the journal knows of {}", rounds, committed_),
        "restore the journal that belongs to it, or start a new federation with another "
        "--out");
  }
  fail(kAfterCheckpoint);
  journal_.settle(rounds);
  committed_ = rounds;
  attempt_ = 1;
  for (auto& [id, order] : orders_) {
    OrderRow& row = order->row;
    if (row.round < rounds && !row.settled) {
      row.settled = true;
      row.reply.head.clear();
      row.reply.models.clear();
      order->task.reset();
    }
  }
  for (const MemberRow& row : journal_.members()) {
    if (const auto member = members_.find(row.name); member != members_.end()) {
      member->second->row.rounds = row.rounds;
      member->second->row.absences = row.absences;
    }
  }
  ask_ = -1;
  spool_.keep_only(wanted());
  metrics_.set("winnow_round", "", static_cast<double>(committed_));
  metrics_.set("winnow_last_commit_timestamp_seconds", "",
               static_cast<double>(clock_.wall()) / 1000.0);
}

}  // namespace winnow::net

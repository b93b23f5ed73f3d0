#include "winnow/net/serve/net_engine.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/sha256.h"
#include "winnow/engine/crew.h"
#include "winnow/federation/codec.h"
#include "winnow/net/mask/masked_sums.h"
#include "winnow/net/serve/wire_form.h"
#include "winnow/train/lane.h"

namespace winnow::net {
namespace {

constexpr std::chrono::milliseconds kGlanceOfEngine{50};

AbsenceReason absence_of(const OrderRow& row) {
  return row.verdict == OrderVerdict::refused ? AbsenceReason::refused : absence_reason(row.reason);
}

}  // namespace

NetEngine::NetEngine(const Workplace& place, NetEngineOptions options, const Clock& clock,
                     const std::atomic<bool>* stop)
    : place_(place),
      options_(std::move(options)),
      exchanges_(options_.masks ? mask::masked_exchanges(place.exchanges(), place.setting().clients)
                                : place.exchanges()),
      clock_(clock),
      stop_(stop) {}

Desk& NetEngine::desk() const {
  if (desk_ == nullptr) {
    throw Error(ErrorKind::internal, "the engine net was asked before it had a desk");
  }
  return *desk_;
}

void NetEngine::attach(Desk& desk, Journal& journal) {
  desk_ = &desk;
  journal_ = &journal;
  own_ = journal.own_models();
}

Workforce NetEngine::workforce() const {
  Workforce force = place_.crew().workforce();
  force.engine = "net";
  return force;
}

std::int64_t NetEngine::samples(std::int64_t client) const {
  if (in_round_) {
    return samples_.at(static_cast<std::size_t>(client));
  }
  return desk_ == nullptr ? 0 : desk_->samples().at(static_cast<std::size_t>(client));
}

void NetEngine::settled(std::int64_t rounds) {
  desk().settle(rounds);
  own_ = journal_->own_models();
}

void NetEngine::pause_before_retry() {
  while (clock_.now() < retry_at_) {
    if (stop_ != nullptr && *stop_) {
      throw Interrupted();
    }
    std::this_thread::sleep_for(kGlanceOfEngine);
  }
}

void NetEngine::begin(std::int64_t round) {
  settled(round);
  pause_before_retry();
  std::optional<RoundRow> row = journal_->round(round);
  if (!row || !journal_->ask(round, row->attempt, 0)) {
    // Nobody was asked yet: whoever is known now takes part. Only its beginning waits for more than
    // one member: somebody who has left since may never come back.
    desk().await_members(round == 0 && !row ? options_.start_with : 1, stop_);
    row = RoundRow{round, row ? row->attempt : 1, desk().samples()};
    journal_->put(*row);
  }
  samples_ = row->samples;
  samples_.resize(static_cast<std::size_t>(size()));
  present_.clear();
  for (const MemberView& view : desk().members()) {
    if (view.row.status == MemberStatus::present &&
        samples_.at(static_cast<std::size_t>(view.row.client)) > 0) {
      present_.push_back(view.row.client);
    }
  }
  desk().begin(round, row->attempt, samples_);
  round_ = round;
  attempt_ = row->attempt;
  in_round_ = true;
  undecided_ = false;
  undecided_because_.clear();
  asks_ = 0;
  ordered_ = 0;
  answered_ = 0;
}

const std::string& NetEngine::digest_of(const State& model) {
  const void* key = model.flat.unsafeGetTensorImpl();
  const auto found = digests_.find(key);
  if (found != digests_.end()) {
    return found->second.second;
  }
  return digests_.emplace(key, std::pair(model, hash(model))).first->second.second;
}

Outgoing NetEngine::packed(const Order& order, std::map<std::string, State>& models) {
  Outgoing outgoing{order.client, order.task.kind(), {}};
  outgoing.parcel = pack_task(
      order.task, exchanges_, [](const std::string&) { return true; },
      [&](const State& model) {
        const std::string& digest = digest_of(model);
        models.try_emplace(digest, model);
        return digest;
      });
  return outgoing;
}

Message NetEngine::reply_of(const OrderRow& row) const {
  const LayoutPtr& layout = place_.crew().layout_of(row.client);
  Known known{.layouts = {layout}, .samples = samples(row.client)};
  known.model = [&](const std::string& digest) {
    return std::optional(desk_->model(digest, layout).to(place_.crew().device()));
  };
  return unpack_reply({row.reply.head, row.reply.models}, row.exchange, exchanges_, known);
}

void NetEngine::count(const Order& order, const OrderRow& row, const Message& reply) {
  traffic_.bytes_down += order.task.bytes();
  traffic_.bytes_up += reply.bytes();
  traffic_.client_steps += row.reply.steps;
  traffic_.participations += row.reply.steps > 0 ? 1 : 0;
  traffic_.passes += Passes{row.reply.forward, row.reply.backward};
  if (!row.reply.own_model.empty()) {
    pending_own_[row.client] = row.reply.own_model;
  }
  ++answered_;
}

std::vector<Absence> NetEngine::ask(const std::vector<Order>& orders, const Fold& fold) {
  check_orders(orders, size(), exchanges_);
  const std::int64_t began = clock_.now();
  std::map<std::string, State> models;
  std::vector<Outgoing> outgoing;
  for (const Order& order : orders) {
    outgoing.push_back(packed(order, models));
  }
  const std::vector<std::int64_t> ids = desk().put_out(asks_++, outgoing, models);
  const std::int64_t answered_before = answered_;
  std::vector<Absence> absent;
  for (const std::size_t place : fold_order(orders, *this)) {
    const Order& order = orders[place];
    const OrderRow row = desk().await(ids[place], stop_);
    if (row.verdict != OrderVerdict::accepted) {
      absent.push_back({order.client, absence_of(row)});
      continue;
    }
    const Message reply = reply_of(row);
    try {
      fold(order.client, reply);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::peer) {
        throw;
      }
      desk().refuse_by_method(row.id, error.what());
      absent.push_back({order.client, AbsenceReason::refused});
      continue;
    }
    count(order, row, reply);
    keep_models_until_read(reply);
  }
  std::ranges::sort(absent, {}, &Absence::client);
  traffic_.train_seconds += static_cast<double>(clock_.now() - began) / 1000.0;
  const std::int64_t asked = std::ssize(orders);
  const auto gone = std::ranges::count(absent, AbsenceReason::left, &Absence::reason);
  const std::int64_t expected = asked - gone;
  ordered_ += expected;
  // Of a single order the round as a whole decides: methods that ask one after the other go on.
  if (asked > 1 && static_cast<double>(answered_ - answered_before) <
                       options_.quorum * static_cast<double>(expected)) {
    undecided_ = true;
    throw Undecided();
  }
  return absent;
}

Sums NetEngine::ask_for_sums(const std::vector<Order>& orders, const std::vector<FieldRule>& rules,
                             SumForm form, const Hear& hear) {
  if (!options_.masks) {
    return Engine::ask_for_sums(orders, rules, form, hear);
  }
  // The same again when the round goes on after a restart, and another one in another attempt.
  const std::string session =
      raw_of(sha256_hex(
                 fmt::format("sum {} {} {} {}", options_.masks->charter, round_, attempt_, asks_)))
          .substr(0, mask::kSessionBytes);
  try {
    return mask::masked_sums(*this, orders, rules, hear, *options_.masks, session);
  } catch (const mask::MasksRemain& remain) {
    undecided_ = true;
    undecided_because_ = remain.what();
    throw Undecided();
  }
}

void NetEngine::end() {
  if (static_cast<double>(answered_) < options_.quorum * static_cast<double>(ordered_)) {
    undecided_ = true;
    throw Undecided();
  }
}

std::vector<std::int64_t> NetEngine::commit() {
  for (auto& [client, model] : pending_own_) {
    own_[client] = std::move(model);
  }
  pending_own_.clear();
  digests_.clear();
  in_round_ = false;
  desk().folded();
  return {};
}

void NetEngine::rollback() {
  pending_own_.clear();
  digests_.clear();
  in_round_ = false;
  // Only a round without a quorum is taken back at the members too. What was interrupted goes on
  // from the journal when the server is started again.
  if (undecided_) {
    undecided_ = false;
    desk().take_back(undecided_because_);
    retry_at_ = clock_.now() + static_cast<std::int64_t>(options_.retry * 1000.0);
  }
}

std::map<std::int64_t, std::string> NetEngine::own_hashes() const {
  std::map<std::int64_t, std::string> hashes = own_;
  for (const auto& [client, model] : pending_own_) {
    hashes[client] = model;
  }
  return hashes;
}

void NetEngine::restore(std::map<std::int64_t, ClientMemory> memories) {
  if (!memories.empty()) {
    throw Error(ErrorKind::run, "it has the memory of simulated clients");
  }
}

}  // namespace winnow::net

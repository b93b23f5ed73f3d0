#include "winnow/mpi/asking.h"

#include <ATen/ATen.h>

#include <chrono>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/codec.h"

namespace winnow {
namespace {

using AskClock = std::chrono::steady_clock;

// Replies that came before their turn; when there are more only the rank whose turn it is is heard.
constexpr std::int64_t kHeldBytes = std::int64_t{512} << 20;

double waited_since(AskClock::time_point start) {
  return std::chrono::duration<double>(AskClock::now() - start).count();
}

// Of the models that are here.
std::int64_t bytes_of_models(const DeskReply& reply) {
  std::int64_t bytes = 0;
  for (const auto& [number, model] : reply.models) {
    bytes += reply.here ? model.bytes() : 0;
  }
  return bytes;
}

}  // namespace

Asking::Asking(Leader& leader, Workplace& place, const std::atomic<bool>* stop, const Dealt& dealt)
    : leader_(leader),
      place_(place),
      stop_(stop),
      ranks_(leader.ranks()),
      number_(dealt.number),
      owners_(dealt.owners),
      queues_(static_cast<std::size_t>(ranks_.size())),
      arrived_(queues_.size()) {
  Delivery delivery(leader);
  std::vector<std::vector<DeskOrder>> desks(queues_.size());
  for (std::size_t item = 0; item < dealt.places.size(); ++item) {
    const Order& order = dealt.orders[dealt.places[item]];
    const Parcel parcel = pack_task(
        order.task, place.exchanges(), [](const std::string&) { return true; },
        [&delivery](const State& model) { return delivery.add(model); });
    const auto owner = static_cast<std::size_t>(owners_[item]);
    for (const PackedModel& model : parcel.models) {
      delivery.need(owners_[item], model.digest);
    }
    desks[owner].push_back({order.client, bytes_of(parcel)});
    queues_[owner].push_back(order.client);
  }
  delivery.settle();
  for (const int rank : leader.others()) {
    const std::vector<DeskOrder>& own = desks[static_cast<std::size_t>(rank)];
    if (own.empty()) {
      continue;
    }
    ByteWriter command;
    command.put(Command::ask).put(number_);
    put(command, dealt.form);
    delivery.write(rank, command);
    command.put(static_cast<std::uint64_t>(own.size()));
    for (const DeskOrder& order : own) {
      command.put(order.client).text(order.parcel);
    }
    ranks_.send(rank, Tag::command, command.take());
  }
  delivery.send();
  if (!desks[0].empty()) {
    desk_.emplace(place, std::move(desks[0]), delivery.models(), dealt.form);
  }
  ranks_.flush();  // while the lanes are at work
}

DeskReply Asking::next(std::size_t item) {
  const int owner = owners_[item];
  std::deque<DeskReply>& own = arrived_[static_cast<std::size_t>(owner)];
  const auto start = AskClock::now();
  Backoff backoff;
  while (own.empty()) {
    if (stop_ != nullptr && *stop_) {
      throw Interrupted();
    }
    const bool has_room = held_ < kHeldBytes;
    if (auto arrival = hear(has_room ? std::nullopt : std::optional(owner))) {
      take(*arrival);
      backoff.reset();
    } else if (desk_ && (owner == 0 || has_room)) {
      if (auto reply = desk_->next(backoff.next())) {
        hold(0, std::move(*reply));
        backoff.reset();
      }
    } else {
      backoff.rest();
    }
    if (owner != 0 && waited_since(start) > ranks_.patience()) {
      ranks_.give_up_on(owner);
    }
  }
  DeskReply reply = std::move(own.front());
  own.pop_front();
  held_ -= bytes_of_models(reply);
  return reply;
}

void Asking::finish() {
  ranks_.flush();
  if (desk_) {
    desk_->note();
  }
}

void Asking::cancel() {
  desk_.reset();
  for (const int rank : leader_.others()) {
    if (!queues_[static_cast<std::size_t>(rank)].empty()) {
      ranks_.send(rank, Tag::cancel, ByteWriter().put(number_).take());
    }
  }
  for (const int rank : leader_.others()) {
    while (!queues_[static_cast<std::size_t>(rank)].empty()) {
      try {
        take({rank, ranks_.receive(rank, Tag::answer)});
      } catch (...) {  // why it has none does not matter any more
      }
    }
  }
  ranks_.flush();
}

std::optional<Ranks::Arrival> Asking::hear(std::optional<int> from) {
  return from == 0 ? std::nullopt : ranks_.poll(Tag::answer, from);
}

void Asking::hold(std::size_t rank, DeskReply reply) {
  held_ += bytes_of_models(reply);
  arrived_[rank].push_back(std::move(reply));
}

void Asking::take(const Ranks::Arrival& arrival) {
  const auto rank = static_cast<std::size_t>(arrival.from);
  std::deque<std::int64_t>& owed = queues_[rank];
  try {
    DeskReply reply = receive_reply(ranks_, arrival.from, arrival.bytes, place_, owed.front());
    owed.pop_front();
    hold(rank, std::move(reply));
  } catch (...) {
    owed.clear();  // nothing follows a failure
    throw;
  }
}

}  // namespace winnow

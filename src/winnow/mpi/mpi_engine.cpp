#include "winnow/mpi/mpi_engine.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/codec.h"
#include "winnow/federation/firewall.h"
#include "winnow/run/checkpoint.h"

namespace winnow {
namespace {

using Clock = std::chrono::steady_clock;

// Replies that came before their turn; when there are more only the rank whose turn it is is heard.
constexpr std::int64_t kHeldBytes = std::int64_t{512} << 20;

std::string command(Command kind) {
  return ByteWriter().put(kind).take();
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::int64_t bytes_of_models(const DeskReply& reply) {
  std::int64_t bytes = 0;
  for (const auto& [digest, model] : reply.models) {
    bytes += model.bytes();
  }
  return bytes;
}

}  // namespace

// One call of ask(): hands out the orders, then has the replies in their order.
class MpiEngine::Ask {
 public:
  Ask(MpiEngine& engine, const std::vector<Order>& orders, const std::vector<std::size_t>& places)
      : engine_(engine),
        ranks_(engine.leader_.ranks()),
        number_(++engine.asks_),
        queues_(static_cast<std::size_t>(ranks_.size())),
        arrived_(queues_.size()) {
    std::vector<std::int64_t> clients;
    for (const std::size_t place : places) {
      clients.push_back(orders[place].client);
    }
    owners_ = engine.deal(clients);
    Delivery delivery(engine.leader_);
    std::vector<std::vector<DeskOrder>> dealt(queues_.size());
    for (std::size_t item = 0; item < places.size(); ++item) {
      const Parcel parcel = pack_task(
          orders[places[item]].task, engine.place_.exchanges(),
          [](const std::string&) { return true; },
          [&delivery](const State& model) { return delivery.add(model); });
      const auto owner = static_cast<std::size_t>(owners_[item]);
      for (const PackedModel& model : parcel.models) {
        delivery.need(owners_[item], model.digest);
      }
      dealt[owner].push_back({clients[item], bytes_of(parcel)});
      queues_[owner].push_back(clients[item]);
    }
    delivery.settle();
    for (const int rank : engine.leader_.others()) {
      const std::vector<DeskOrder>& own = dealt[static_cast<std::size_t>(rank)];
      if (own.empty()) {
        continue;
      }
      ByteWriter command;
      command.put(Command::ask).put(number_);
      delivery.write(rank, command);
      command.put(static_cast<std::uint64_t>(own.size()));
      for (const DeskOrder& order : own) {
        command.put(order.client).text(order.parcel);
      }
      ranks_.send(rank, Tag::command, command.take());
    }
    delivery.send();
    if (!dealt[0].empty()) {
      desk_.emplace(engine.place_, std::move(dealt[0]), delivery.models());
    }
    ranks_.flush();  // while the lanes are at work
  }

  int owner(std::size_t item) const { return owners_[item]; }

  // The reply to the order whose turn it is.
  DeskReply next(std::size_t item) {
    const int owner = owners_[item];
    std::deque<DeskReply>& own = arrived_[static_cast<std::size_t>(owner)];
    const auto start = Clock::now();
    Backoff backoff;
    while (own.empty()) {
      if (engine_.stop_ != nullptr && *engine_.stop_) {
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
      if (owner != 0 && seconds_since(start) > ranks_.patience()) {
        ranks_.give_up_on(owner);
      }
    }
    DeskReply reply = std::move(own.front());
    own.pop_front();
    held_ -= bytes_of_models(reply);
    return reply;
  }

  // Everybody is done.
  void finish() {
    ranks_.flush();
    if (desk_) {
      desk_->note();
    }
  }

  // Has everybody stop, and hears out who owes something.
  void cancel() {
    desk_.reset();
    for (const int rank : engine_.leader_.others()) {
      if (!queues_[static_cast<std::size_t>(rank)].empty()) {
        ranks_.send(rank, Tag::cancel, ByteWriter().put(number_).take());
      }
    }
    for (const int rank : engine_.leader_.others()) {
      while (!queues_[static_cast<std::size_t>(rank)].empty()) {
        try {
          take({rank, ranks_.receive(rank, Tag::answer)});
        } catch (...) {  // why it has none does not matter any more
        }
      }
    }
    ranks_.flush();
  }

 private:
  std::optional<Ranks::Arrival> hear(std::optional<int> from) {
    return from == 0 ? std::nullopt : ranks_.poll(Tag::answer, from);
  }

  void hold(std::size_t rank, DeskReply reply) {
    held_ += bytes_of_models(reply);
    arrived_[rank].push_back(std::move(reply));
  }

  void take(const Ranks::Arrival& arrival) {
    const auto rank = static_cast<std::size_t>(arrival.from);
    std::deque<std::int64_t>& owed = queues_[rank];
    try {
      DeskReply reply =
          receive_reply(ranks_, arrival.from, arrival.bytes, engine_.place_, owed.front());
      owed.pop_front();
      hold(rank, std::move(reply));
    } catch (...) {
      owed.clear();  // nothing follows a failure
      throw;
    }
  }

  MpiEngine& engine_;
  Ranks& ranks_;
  std::uint64_t number_;
  std::vector<int> owners_;
  std::vector<std::deque<std::int64_t>> queues_;  // by rank the clients whose replies it owes
  std::vector<std::deque<DeskReply>> arrived_;
  std::int64_t held_ = 0;
  std::optional<Desk> desk_;
};

MpiEngine::MpiEngine(Leader& leader, Workplace& place, std::vector<std::int64_t> lanes,
                     const std::atomic<bool>* stop)
    : leader_(leader),
      place_(place),
      lanes_(std::move(lanes)),
      stop_(stop),
      examiner_(leader, place) {
  place.members().serve(place.client_side());
}

MpiEngine::~MpiEngine() {
  leader_.command_all(command(Command::close));
  leader_.clear_shelves();
  leader_.ranks().flush();
}

Workforce MpiEngine::workforce() const {
  return {.engine = "mpi",
          .ranks = leader_.ranks().size(),
          .lanes = std::accumulate(lanes_.begin(), lanes_.end(), std::int64_t{0}),
          .bytes_received = leader_.ranks().bytes_received()};
}

std::vector<int> MpiEngine::deal(const std::vector<std::int64_t>& clients) const {
  std::vector<int> dealt;
  std::vector<double> load(lanes_.size());
  for (const std::int64_t client : clients) {
    const auto holder = holders_.find(client);
    const auto rank = holder != holders_.end()
                          ? static_cast<std::size_t>(holder->second)
                          : static_cast<std::size_t>(std::ranges::min_element(load) - load.begin());
    // One without samples costs something too.
    load[rank] += (1.0 + static_cast<double>(samples(client))) / static_cast<double>(lanes_[rank]);
    dealt.push_back(static_cast<int>(rank));
  }
  return dealt;
}

std::vector<Absence> MpiEngine::ask(const std::vector<Order>& orders, const Fold& fold) {
  check_orders(orders, size(), place_.exchanges());
  const std::vector<std::size_t> places = fold_order(orders, *this);
  const auto started = Clock::now();
  Ask ask(*this, orders, places);
  try {
    for (std::size_t item = 0; item < places.size(); ++item) {
      const Order& order = orders[places[item]];
      const DeskReply given = ask.next(item);
      const Message reply =
          unpack_reply(parcel_of(given.parcel), order.task.kind(), place_.exchanges(),
                       known_of(place_, order.client, given.models));
      // Ranks run the same program: a reply that does not fit is a bug of the client side.
      if (const auto refusal =
              judge(reply, order.task, samples(order.client), place_.exchanges())) {
        throw Error(ErrorKind::peer, fmt::format("client {}: {}", order.client, refusal->detail));
      }
      if (given.remembers) {
        holders_[order.client] = ask.owner(item);
      }
      traffic_.bytes_down += order.task.bytes();
      traffic_.bytes_up += reply.bytes();
      traffic_.client_steps += given.steps;
      loss_ += given.loss;
      traffic_.participations += given.steps > 0 ? 1 : 0;
      traffic_.passes += given.passes;
      fold(order.client, reply);
      keep_models_until_read(reply);
    }
    ask.finish();
  } catch (...) {
    ask.cancel();
    throw;
  }
  traffic_.train_seconds += seconds_since(started);
  return {};
}

std::vector<std::int64_t> MpiEngine::commit() {
  loss_ = {};
  std::vector<std::int64_t> changed = place_.members().commit();
  const auto take = [this](std::int64_t client, Trace trace) {
    traces_.erase(client);
    if (!trace.empty()) {
      traces_[client] = std::move(trace);
    }
  };
  for (const std::int64_t client : changed) {
    const Traces& own = place_.members().traces();
    const auto found = own.find(client);
    take(client, found == own.end() ? Trace() : found->second);
  }
  leader_.ask_all(command(Command::commit), [&](int, ByteReader& answer) {
    for (const std::int64_t client : answer.list<std::int64_t>()) {
      changed.push_back(client);
      take(client, get_trace(answer));
    }
  });
  std::ranges::sort(changed);
  return changed;
}

void MpiEngine::rollback() {
  loss_ = {};
  place_.members().rollback();
  leader_.command_all(command(Command::rollback));
  leader_.clear_shelves();
}

ModelsByClient MpiEngine::own_models() const {
  return gather_own_models(leader_, place_);
}

std::map<std::int64_t, std::string> MpiEngine::own_hashes() const {
  leader_.command_all(command(Command::own_hashes));
  std::map<std::int64_t, std::string> hashes = hashes_of(place_.members().own_models());
  leader_.collect(leader_.others(), [&](int, ByteReader& answer) {
    for (const std::int64_t client : answer.list<std::int64_t>()) {
      hashes[client] = answer.text();
    }
  });
  return hashes;
}

std::vector<MemoryPart> MpiEngine::save_parts(const std::filesystem::path& folder,
                                              std::int64_t /*round*/) {
  const std::string place = std::filesystem::absolute(folder).string();
  std::vector<MemoryPart> parts;
  leader_.ask_all(ByteWriter().put(Command::save).text(place).take(), [&](int, ByteReader& answer) {
    const auto count = answer.get<std::uint64_t>();
    for (std::uint64_t i = 0; i < count; ++i) {
      std::string file = answer.text();
      std::string hash = answer.text();
      parts.push_back({std::move(file), std::move(hash), answer.get<std::uint64_t>()});
    }
  });
  return parts;
}

void MpiEngine::restore(std::map<std::int64_t, ClientMemory> memories) {
  holders_.clear();
  traces_.clear();
  std::vector<std::int64_t> clients;
  for (const auto& [client, memory] : memories) {
    if (client < 0 || client >= size()) {
      throw Error(ErrorKind::run,
                  fmt::format("client {}: it is not one of the {} clients", client, size()));
    }
    clients.push_back(client);
    if (!memory.trace.empty()) {
      traces_[client] = memory.trace;
    }
  }
  // The largest first, as in ask().
  std::ranges::stable_sort(clients, std::ranges::greater(),
                           [this](std::int64_t client) { return samples(client); });
  const std::vector<int> dealt = deal(clients);
  std::vector<std::map<std::int64_t, ClientMemory>> parts(lanes_.size());
  for (std::size_t i = 0; i < clients.size(); ++i) {
    holders_[clients[i]] = dealt[i];
    parts[static_cast<std::size_t>(dealt[i])][clients[i]] = std::move(memories[clients[i]]);
  }
  for (const int rank : leader_.others()) {
    auto& part = parts[static_cast<std::size_t>(rank)];
    leader_.ranks().send(rank, Tag::command,
                         ByteWriter().put(Command::restore).text(encode_memories(part)).take());
    part.clear();
  }
  std::exception_ptr own;
  try {
    place_.members().restore(std::move(parts[0]));
  } catch (...) {
    own = std::current_exception();
  }
  leader_.collect(leader_.others(), [](int, ByteReader&) {});
  if (own) {
    std::rethrow_exception(own);
  }
}

}  // namespace winnow

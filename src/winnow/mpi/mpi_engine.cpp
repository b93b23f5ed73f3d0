#include "winnow/mpi/mpi_engine.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/engine/crew.h"
#include "winnow/federation/codec.h"
#include "winnow/federation/firewall.h"
#include "winnow/run/checkpoint.h"

namespace winnow {
namespace {

using Clock = std::chrono::steady_clock;

// What a rank keeps of a round for a sum. At its end this may be there three times.
constexpr std::int64_t kKeptBytes = std::int64_t{1} << 30;

// Within a node, models of this size are gathered during training in less time than segments of
// them are exchanged after it (docs/scale.md).
constexpr std::int64_t kLargeOnOneNode = std::int64_t{4} << 20;

std::string command(Command kind) {
  return ByteWriter().put(kind).take();
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The rule of a model that is summed; null: it is not.
const FieldRule* summed_by(const std::vector<FieldRule>& rules, const std::string& name) {
  const auto found = std::ranges::find(rules, name, &FieldRule::name);
  return found == rules.end() || !found->sum ? nullptr : &*found;
}

}  // namespace

MpiEngine::MpiEngine(Leader& leader, Workplace& place, std::vector<std::int64_t> lanes, FoldBy fold,
                     const std::atomic<bool>* stop)
    : leader_(leader),
      place_(place),
      lanes_(std::move(lanes)),
      fold_(fold),
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
  Workforce force = place_.crew().workforce();
  force.engine = "mpi";
  force.ranks = leader_.ranks().size();
  force.lanes = std::accumulate(lanes_.begin(), lanes_.end(), std::int64_t{0});
  force.bytes_received = leader_.ranks().bytes_received();
  return force;
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

Dealt MpiEngine::deal_out(const std::vector<Order>& orders) {
  check_orders(orders, size(), place_.exchanges());
  Dealt dealt{
      .orders = orders, .places = fold_order(orders, *this), .owners = {}, .number = ++asks_};
  std::vector<std::int64_t> clients;
  for (const std::size_t place : dealt.places) {
    clients.push_back(orders[place].client);
  }
  dealt.owners = deal(clients);
  return dealt;
}

Message MpiEngine::accept(const Order& order, const DeskReply& given, int owner) {
  Message reply = unpack_reply(parcel_of(given.parcel), order.task.kind(), place_.exchanges(),
                               known_of(place_, order.client, given.models));
  // Ranks run the same program: a reply that does not fit is a bug of the client side.
  if (const auto refusal = judge(reply, order.task, samples(order.client), place_.exchanges())) {
    throw Error(ErrorKind::peer, fmt::format("client {}: {}", order.client, refusal->detail));
  }
  if (given.remembers) {
    holders_[order.client] = owner;
  }
  traffic_.bytes_down += order.task.bytes();
  traffic_.bytes_up += reply.bytes();
  traffic_.client_steps += given.steps;
  loss_ += given.loss;
  traffic_.participations += given.steps > 0 ? 1 : 0;
  traffic_.passes += given.passes;
  return reply;
}

void MpiEngine::hear_all(const Dealt& dealt,
                         const std::function<void(std::size_t item, DeskReply& reply)>& take) {
  Asking asking(leader_, place_, stop_, dealt);
  try {
    for (std::size_t item = 0; item < dealt.places.size(); ++item) {
      DeskReply reply = asking.next(item);
      take(item, reply);
    }
    asking.finish();
  } catch (...) {
    asking.cancel();
    throw;
  }
}

std::vector<Absence> MpiEngine::ask(const std::vector<Order>& orders, const Fold& fold) {
  const Dealt dealt = deal_out(orders);
  const auto started = Clock::now();
  hear_all(dealt, [&](std::size_t item, const DeskReply& given) {
    const Order& order = orders[dealt.places[item]];
    const Message reply = accept(order, given, dealt.owners[item]);
    fold(order.client, reply);
    keep_models_until_read(reply);
  });
  traffic_.train_seconds += seconds_since(started);
  return {};
}

const std::vector<FieldRule>& MpiEngine::answers_to(const std::vector<Order>& orders) const {
  return exchange_of(orders.front().task.kind(), place_.exchanges()).answers;
}

bool MpiEngine::forms_sums() const {
  return fold_ != FoldBy::gather && lanes_.size() > 1 && place_.crew().device().is_cpu();
}

bool MpiEngine::keeps_models(const Dealt& dealt, const std::vector<FieldRule>& rules,
                             SumForm form) const {
  if (!forms_sums() || dealt.places.empty() || place_.crew().layouts().size() != 1) {
    return false;
  }
  const std::string& kind = dealt.orders.front().task.kind();
  const std::vector<FieldRule>& answers = answers_to(dealt.orders);
  const auto holds_models = [](const FieldRule& rule) {
    return rule.type == FieldType::state || rule.type == FieldType::states;
  };
  const bool all_summed = std::ranges::all_of(answers, [&](const FieldRule& answer) {
    return !holds_models(answer) || summed_by(rules, answer.name) != nullptr;
  });
  const bool alike = std::ranges::all_of(
      dealt.orders, [&](const Order& order) { return order.task.kind() == kind; });
  const auto ranks = std::ssize(lanes_);
  const std::int64_t here = std::ranges::count(dealt.owners, 0);
  const std::int64_t elsewhere = std::ssize(dealt.owners) - here;
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    most = std::max<std::int64_t>(most, std::ranges::count(dealt.owners, rank));
  }
  const std::int64_t model = 4 * place_.crew().layout()->total();
  const std::int64_t bytes = most * std::ranges::count_if(answers, holds_models) * model;
  // What rank 0 receives, in segments of a model: of words a whole sum of each rank, twice as
  // large; of floats a segment of each reply and one of the mean.
  const std::int64_t received =
      form == SumForm::fixed ? 2 * ranks * (ranks - 1) : elsewhere + ranks - 1;
  const bool halves = 2 * received <= elsewhere * ranks;
  const bool one_node = leader_.ranks().node_size() == leader_.ranks().size();
  const bool gains = halves && !(one_node && model >= kLargeOnOneNode);
  return all_summed && alike && bytes <= kKeptBytes && (fold_ == FoldBy::segments || gains);
}

Sums MpiEngine::ask_for_sums(const std::vector<Order>& orders, const std::vector<FieldRule>& rules,
                             SumForm form, const Hear& hear) {
  Dealt dealt = deal_out(orders);
  if (!keeps_models(dealt, rules, form)) {
    return Engine::ask_for_sums(orders, rules, form, hear);
  }
  dealt.form = form;
  const auto started = Clock::now();
  Sums sums;
  FoldPlan plan{.form = form};
  std::vector<std::string> names;
  for (const FieldRule& answer : answers_to(orders)) {  // as models lie in a reply
    if (const FieldRule* rule = summed_by(rules, answer.name)) {
      plan.rules.push_back(*rule->sum);
      names.push_back(rule->name);
    }
  }
  std::vector<ReplyModels> own;
  hear_all(dealt, [&](std::size_t item, DeskReply& given) {
    const Order& order = orders[dealt.places[item]];
    const Message rest = without_summed(accept(order, given, dealt.owners[item]), rules);
    const bool counts = given.fits && hear(order.client, rest);
    (counts ? sums.added : sums.rejected).push_back(order.client);
    plan.items.push_back({.owner = dealt.owners[item],
                          .samples = rest.get<std::uint32_t>("samples"),
                          .counts = counts ? std::uint64_t{1} : 0});
    if (dealt.owners[item] == 0) {
      own.push_back(take_models(given));
    }
  });
  if (!sums.added.empty()) {
    std::ranges::sort(sums.added);
    std::vector<State> means = fold_kept(plan, own);
    for (std::size_t model = 0; model < names.size(); ++model) {
      sums.means.emplace(names[model], std::move(means[model]));
    }
  }
  traffic_.train_seconds += seconds_since(started);
  return sums;
}

std::vector<State> MpiEngine::fold_kept(const FoldPlan& plan, const std::vector<ReplyModels>& own) {
  ByteWriter command;
  command.put(Command::fold);
  put(command, plan);
  leader_.command_all(command.take());
  try {
    return add_up(leader_.ranks(), place_.crew().layout(), plan, own);
  } catch (...) {
    leader_.ranks().give_up();  // the others wait for what this rank owes them
  }
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

void MpiEngine::check_directory(const std::filesystem::path& run) {
  const auto elsewhere = [](const auto& holder) { return holder.second != 0; };
  if (directory_is_shared_ || lanes_.size() == 1 || std::ranges::none_of(holders_, elsewhere)) {
    return;
  }
  const std::filesystem::path token = temporary_beside(std::filesystem::absolute(run) / "seen");
  write_file_whole(token, "");
  const auto look = [&](int rank, ByteReader& answer) {
    if (!answer.get<bool>()) {
      throw Error(ErrorKind::run,
                  fmt::format("{} does not see the run directory {}, where it would have to save "
                              "what its clients remember",
                              leader_.ranks().name(rank), run.string()),
                  "put the run directory on a file system that all nodes share");
    }
  };
  const auto remove = [&] {
    std::error_code ignored;
    std::filesystem::remove(token, ignored);
  };
  try {
    leader_.ask_all(ByteWriter().put(Command::look).text(token.string()).take(), look);
  } catch (...) {
    remove();
    throw;
  }
  remove();
  directory_is_shared_ = true;
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

#include "winnow/method/round.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/firewall.h"
#include "winnow/federation/selection.h"

namespace winnow {

std::vector<Order> orders_for(const std::vector<std::int64_t>& clients, const TaskFor& task) {
  std::vector<Order> orders;
  orders.reserve(clients.size());
  for (const std::int64_t client : clients) {
    orders.push_back({client, task(client)});
  }
  return orders;
}

ClientList selectable_clients(const Fleet& fleet) {
  ClientList pool = fleet.with_samples();
  if (pool.empty()) {
    throw Error(ErrorKind::run, "no client holds a sample");
  }
  return pool;
}

Round::Round(std::int64_t its_number, Server& its_server)
    : Round(its_number, its_server, selectable_clients(its_server.fleet)) {}

Round::Round(std::int64_t its_number, Server& its_server, ClientList its_pool)
    : number(its_number),
      server(its_server),
      setting(its_server.setting),
      fleet(its_server.fleet),
      global(its_server.global),
      notes(its_server.notes),
      pool(std::move(its_pool)) {}

std::int64_t Round::share() const {
  return participants(setting.fraction, std::ssize(pool));
}

std::vector<std::int64_t> Round::draw(std::int64_t count) const {
  return select_uniform(pool, count, setting.seed, number);
}

Message Round::task(const std::string& kind) const {
  return Message(kind).set("round", stamp()).set("model", global);
}

void Round::fold(const std::vector<std::int64_t>& clients, const TaskFor& task,
                 const std::function<bool(const Message&)>& counts, const Fleet::Fold& take) {
  const std::vector<Absence> missing =
      fleet.ask(orders_for(clients, task), [&](std::int64_t client, const Message& reply) {
        if (counts(reply)) {
          take(client, reply);
        } else {
          reject(client);
        }
      });
  add_absent(missing);
}

void Round::add_absent(const std::vector<Absence>& missing) {
  absent.insert(absent.end(), missing.begin(), missing.end());
  std::ranges::sort(absent, {}, &Absence::client);
}

Sums Round::ask_for_sums(const std::vector<std::int64_t>& clients, const TaskFor& task,
                         const std::vector<FieldRule>& rules, const Fleet::Hear& hear) {
  Sums sums = fleet.ask_for_sums(orders_for(clients, task), rules, setting.sums,
                                 [&](std::int64_t client, const Message& numbers) {
                                   return usable(numbers, rules) && hear(client, numbers);
                                 });
  rejected.insert(rejected.end(), sums.rejected.begin(), sums.rejected.end());
  add_absent(sums.absent);
  return sums;
}

void Round::ask(const std::vector<std::int64_t>& clients, const TaskFor& task,
                const std::vector<Exchange>& exchanges, const Fleet::Fold& take) {
  fold(
      clients, task, [&](const Message& reply) { return usable(reply, exchanges); }, take);
}

void Round::ask(const std::vector<std::int64_t>& clients, const TaskFor& task,
                const std::vector<FieldRule>& rules, const Fleet::Fold& take) {
  fold(
      clients, task, [&](const Message& reply) { return usable(reply, rules); }, take);
}

std::vector<std::int64_t> Round::answered() const {
  std::vector<std::int64_t> clients = chosen;
  std::erase_if(clients, [this](std::int64_t client) { return is_absent(client, absent); });
  return clients;
}

void Round::require_some() const {
  if (!chosen.empty() && rejected.size() == chosen.size()) {
    throw Error(ErrorKind::run,
                fmt::format("round {}: every reply held values that are not finite{}", number + 1,
                            setting.sums == SumForm::fixed ? ", or too large for a sum" : ""),
                "the training diverged: lower train.lr");
  }
}

void Round::note_clients() const {
  notes["clients"] = chosen;
  if (!rejected.empty()) {
    notes["rejected"] = rejected;
    if (setting.sums == SumForm::fixed) {
      notes["rejected_because"] = "values that are not finite or do not fit into a sum";
    }
  }
}

bool Round::note_replies() const {
  require_some();
  note_clients();
  const bool somebody = rejected.size() + absent.size() < chosen.size();
  if (!somebody) {
    note_standstill();
  }
  return somebody;
}

bool Round::stands_still(bool enough) const {
  const bool stands = chosen.size() <= absent.size() || (!absent.empty() && !enough);
  if (stands) {
    note_standstill();
  }
  return stands;
}

void Round::note_standstill() const {
  notes["standstill"] = "too few clients answered: the model stays as it is";
}

}  // namespace winnow

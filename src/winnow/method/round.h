// One round of a run: its number, who takes part in it, and what came of asking them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "winnow/method/method.h"

namespace winnow {

using TaskFor = std::function<Message(std::int64_t client)>;

// An order for each of the clients.
[[nodiscard]] std::vector<Order> orders_for(const std::vector<std::int64_t>& clients,
                                            const TaskFor& task);

// The clients a round may choose from; throws Error(kind run) when no client holds a sample.
[[nodiscard]] ClientList selectable_clients(const Fleet& fleet);

// Made by a method's play() and handed to all its parts, so that each of them knows the round it
// works for and can note what its event should show. Lives as long as the round.
struct Round {
  // Among all clients that hold samples, as selectable_clients() has them.
  Round(std::int64_t its_number, Server& its_server);
  // Among these, ascending.
  Round(std::int64_t its_number, Server& its_server, ClientList its_pool);

  std::int64_t number;  // from 0
  Server& server;
  // What the server has of the round; `global` is the model that is sent out until the method
  // replaces it.
  const Setting& setting;
  Fleet& fleet;
  State& global;
  Json& notes;

  ClientList pool;                          // who may be chosen
  std::vector<std::int64_t> chosen = {};    // who was asked to take part
  std::vector<std::int64_t> rejected = {};  // whose reply does not count, as replies came
  std::vector<Absence> absent = {};         // whose reply never came, ascending

  // How many of the pool the experiment has take part.
  [[nodiscard]] std::int64_t share() const;
  // So many of the pool, or all when there are fewer, uniformly; keyed by the run's seed and the
  // round.
  [[nodiscard]] std::vector<std::int64_t> draw(std::int64_t count) const;
  [[nodiscard]] std::vector<std::int64_t> draw() const { return draw(share()); }

  // A task of that kind that begins as most do: with the round's number and the global model.
  [[nodiscard]] Message task(const std::string& kind) const;
  // The number as it travels.
  [[nodiscard]] std::uint32_t stamp() const { return static_cast<std::uint32_t>(number); }

  // Sends each of the clients its task and hands every reply over, in the fleet's order, that is
  // usable() by the method's exchanges, or by the rules of its fields. Who sent another is
  // rejected, who sent none absent.
  void ask(const std::vector<std::int64_t>& clients, const TaskFor& task,
           const std::vector<Exchange>& exchanges, const Fleet::Fold& take);
  void ask(const std::vector<std::int64_t>& clients, const TaskFor& task,
           const std::vector<FieldRule>& rules, const Fleet::Fold& take);
  // The same where the sums of the models are enough: `hear` gets the rest of every reply that is
  // usable and says whether it counts. Who sent a reply that does not, or models that do not fit
  // into a sum, is rejected.
  [[nodiscard]] Sums ask_for_sums(const std::vector<std::int64_t>& clients, const TaskFor& task,
                                  const std::vector<FieldRule>& rules, const Fleet::Hear& hear);
  // Whether sums are to be asked for where they are enough: because the server must not see more,
  // or because the fleet forms them in a better way.
  [[nodiscard]] bool by_sums() const {
    return setting.sums == SumForm::fixed || fleet.forms_sums();
  }
  // A reply that was handed over does not count after all.
  void reject(std::int64_t client) { rejected.push_back(client); }

  // The chosen clients that answered, usably or not.
  [[nodiscard]] std::vector<std::int64_t> answered() const;

  // Notes who was chosen, and who of them was rejected where somebody was.
  void note_clients() const;
  // The same, and whether anybody is left: if not, because some were absent, the round leaves the
  // model as it is, which is noted too. Throws Error(kind run) when all have answered and all were
  // rejected.
  [[nodiscard]] bool note_replies() const;
  // The last part of that alone.
  void require_some() const;
  // Whether too many are absent for a next model: all of the chosen, or so many that what the
  // others sent is too little, as `enough` says. Notes it.
  [[nodiscard]] bool stands_still(bool enough) const;
  // Notes that too few have answered for a next model.
  void note_standstill() const;

 private:
  void fold(const std::vector<std::int64_t>& clients, const TaskFor& task,
            const std::function<bool(const Message& reply)>& counts, const Fleet::Fold& take);
  void add_absent(const std::vector<Absence>& missing);
};

}  // namespace winnow

// The fleet: the set of clients as the server sees it, whatever runs them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "winnow/federation/exchange.h"
#include "winnow/federation/message.h"
#include "winnow/train/passes.h"

namespace winnow {

// A task on its way to a client.
struct Order {
  std::int64_t client = 0;
  Message task;
};

// What crossed the boundary and what was computed so far.
struct Traffic {
  std::int64_t participations = 0;  // trainings of one client in one round
  std::int64_t bytes_down = 0;      // payload of tasks
  std::int64_t bytes_up = 0;        // payload of replies
  std::int64_t client_steps = 0;    // optimiser steps
  double train_seconds = 0.0;       // wall time spent waiting for clients
  Passes passes = {};               // of images through networks, by clients
};

// Why an order has no reply that counts.
enum class AbsenceReason {
  silent,   // nothing came
  late,     // it came after the time was up
  refused,  // it did not fit
  left,     // the client takes part no longer
};

std::string name_of(AbsenceReason reason);
// Throws Error(kind run) for an unknown name.
AbsenceReason absence_reason(const std::string& name);

struct Absence {
  std::int64_t client = 0;
  AbsenceReason reason = AbsenceReason::silent;

  bool operator==(const Absence&) const = default;
};

// How the server forms sums of models (federation.sums).
enum class SumForm {
  floating,  // of single models, in double precision, in the fleet's order
  fixed,     // as whole numbers, see FixedSum: all it sees of models are the sums
};

// What came of asking for sums.
struct Sums {
  std::map<std::string, State> means;  // of every field that is summed; none where nobody counts
  std::vector<std::int64_t> added;     // who is in them, ascending
  std::vector<std::int64_t> rejected;  // whose reply does not count or does not fit, as they came
  std::vector<Absence> absent;         // ascending

  // A copy of its own, which may be changed.
  State mean(const std::string& field) const { return means.at(field).clone(); }
};

// A list of clients, ascending. Copies share it: a million ids are not copied in every round.
class ClientList {
 public:
  using value_type = std::int64_t;
  using const_iterator = std::vector<std::int64_t>::const_iterator;

  ClientList() : ClientList(std::vector<std::int64_t>()) {}
  // NOLINTNEXTLINE(google-explicit-constructor): the same in another form
  ClientList(std::vector<std::int64_t> ids)
      : ids_(std::make_shared<const std::vector<std::int64_t>>(std::move(ids))) {}

  const std::vector<std::int64_t>& ids() const { return *ids_; }
  // NOLINTNEXTLINE(google-explicit-constructor): the same in another form
  operator const std::vector<std::int64_t>&() const { return *ids_; }
  const_iterator begin() const { return ids_->begin(); }
  const_iterator end() const { return ids_->end(); }
  std::size_t size() const { return ids_->size(); }
  bool empty() const { return ids_->empty(); }
  std::int64_t operator[](std::size_t place) const { return (*ids_)[place]; }

 private:
  std::shared_ptr<const std::vector<std::int64_t>> ids_;
};

class Fleet {
 public:
  using Fold = std::function<void(std::int64_t client, const Message& reply)>;

  virtual ~Fleet() = default;

  virtual std::int64_t size() const = 0;
  // Samples of a client, as it told when it joined.
  virtual std::int64_t samples(std::int64_t client) const = 0;
  // The clients that hold at least one sample: those worth selecting. Here looked for among all; a
  // fleet whose clients never change keeps the list.
  virtual ClientList with_samples() const;

  // Sends every order and calls `fold` with each reply, one at a time, on the caller's thread, in
  // an order that depends on the orders alone: clients with more samples first, then lower ids.
  // Sums formed in `fold` therefore do not depend on who answers first, and only a few replies are
  // ever held at once. At most one order per client. Returns the clients whose reply never came,
  // ascending: `fold` was not called for them. Throws what a client threw.
  [[nodiscard]] virtual std::vector<Absence> ask(const std::vector<Order>& orders,
                                                 const Fold& fold) = 0;

  // The same for a server to which the sums of the models are enough. `rules` are those of the
  // reply, the same for all orders, and say which models are summed and how they weigh. `hear` is
  // called with the rest of every reply whose models fit, in the order of ask(), and says whether
  // it counts. A model fits where all its values are finite, and into a fixed-point sum where they
  // are in its range. The bits are the same whatever runs the clients; with SumForm::floating they
  // are those of WeightedMean over the replies of ask(). A part of a model that has no weight in
  // the sum is zero.
  using Hear = std::function<bool(std::int64_t client, const Message& numbers)>;
  [[nodiscard]] virtual Sums ask_for_sums(const std::vector<Order>& orders,
                                          const std::vector<FieldRule>& rules, SumForm form,
                                          const Hear& hear);
  // Whether it forms sums of either form in a better way than from single models: a method that can
  // do with sums should then ask for them.
  [[nodiscard]] virtual bool forms_sums() const { return false; }

  virtual const Traffic& traffic() const = 0;
};

// Whether the client is among the absent.
[[nodiscard]] bool is_absent(std::int64_t client, const std::vector<Absence>& absent);

// Whether a model can go into a sum of that form.
[[nodiscard]] bool fits_sum(const State& model, SumForm form);

// The reply without the models that are summed.
[[nodiscard]] Message without_summed(const Message& reply, const std::vector<FieldRule>& rules);

// The fixed order in which orders are dispatched and replies folded: places into `orders`.
[[nodiscard]] std::vector<std::size_t> fold_order(const std::vector<Order>& orders,
                                                  const Fleet& fleet);

}  // namespace winnow

// A base method: one training round in parts, so that other methods can wrap it. Played alone it is
// a method like any other; ClipFL, FedNS and FedCorr take its parts and decide between them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "winnow/federation/aggregation.h"
#include "winnow/method/round.h"

namespace winnow {

// An uploaded model on its way into the next global one.
struct Upload {
  std::int64_t client = 0;
  Message reply;         // as the base method's exchanges have it: "model", "samples", ...
  double samples = 0.0;  // what it weighs by its data
  double factor = 1.0;   // what a wrapper multiplies that by; 1 for all is the base method alone

  const State& model() const { return reply.get<State>("model"); }
  double weight() const { return samples * factor; }
};

// How many models a base method gets to fuse, and the words to refuse that with.
struct ModelCount {
  std::int64_t models = 0;
  std::string said;  // what leads to that number: "method.keep = 5"
  std::string who;   // whose rule cannot use it: "base bulyan"
  std::string cure;  // what would change it: "raise method.keep"
};

// All participants of a round.
[[nodiscard]] ModelCount whole_round(const Setting& setting, std::string who);

// What is not overridden is FedAvg. Training tasks are of kind "train", their replies of kind
// "train_done"; both begin with the fields of FedAvg's (see exchanges()), and a base method may add
// fields and further kinds. Its messages, client side and server side must agree.
class BaseMethod : public Method {
 public:
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  void play(std::int64_t number, Server& server) override;
  // A round with `count` of its pool, the training tasks under the kind `kind`: select, begin, ask,
  // add for every reply, finish.
  void play_round(Round& round, std::int64_t count, const std::string& kind = "train");

  // Chooses `count` of the round's pool, ascending, or all when there are fewer.
  [[nodiscard]] virtual std::vector<std::int64_t> select(Round& round, std::int64_t count);
  // The task of one chosen client, after begin().
  [[nodiscard]] virtual Message task(const Round& round, std::int64_t client) const;
  // From uploads to the next global model: begin(), add() in the fleet's order, finish(). A round
  // may add fewer uploads than were asked for, with factors of the wrapper's choice. `round.global`
  // is the model that was sent out all the while. What the event of the round should show, a part
  // notes in the round, and so it is there whoever wraps the method.
  virtual void begin(Round& round);
  virtual void add(Round& round, const Upload& upload);
  // Whether what was added makes a next model. Where clients are absent it may be too little, and
  // the model then stays as it is.
  [[nodiscard]] virtual bool can_finish() const { return mean_.total_weight() > 0.0; }
  [[nodiscard]] virtual State finish(Round& round);
  // Whether Upload::weight() or its factor has a say in the next model. A wrapper that does nothing
  // but weigh clients refuses a base without.
  virtual bool weighs() const { return true; }

  // The same where the server sees sums alone (Round::by_sums()), in place of add() for every
  // upload: hear() for every reply that counts, without the models that are summed, then add_sums()
  // once. What server_needs() of a base method says about sums must hold for these two: whoever
  // overrides add() has to say what becomes of it here. A run may be played by sums although the
  // experiment does not ask for them, where its engine forms them faster (Round::by_sums()).
  virtual void hear(Round& /*round*/, std::int64_t /*client*/, const Message& /*numbers*/) {}
  virtual void add_sums(Round& round, const Sums& sums);

  // Refuses, with Error(kind experiment), a number of models that its rule can make nothing of. A
  // wrapper that hands over fewer than whole rounds asks this beside check().
  virtual void check_models(const ModelCount& /*count*/) const {}

 protected:
  // server_needs() of `Own`, which is played by sums but is no final class. Whoever derives from it
  // may override add(), which sums pass over, and so has to speak for itself: until it overrides
  // server_needs(), it is taken to need every single model.
  template <typename Own>
  [[nodiscard]] ServerNeeds needs_sums_as(ServerNeeds own) const {
    return typeid(*this) == typeid(Own) ? std::move(own) : needs_of_derived();
  }
  // What local training adds to plain SGD.
  virtual LocalRule local_rule() const { return {}; }
  // The exchanges with models that weigh like this in sums.
  [[nodiscard]] static std::vector<Exchange> exchanges_of(Weighting parameters, Weighting buffers);

 private:
  [[nodiscard]] static ServerNeeds needs_of_derived();

  WeightedMean mean_;
};

// Sends base's training task to the chosen clients, to each under the kind that `kind_of` says, and
// hands over every reply that is usable, in the fleet's order. Notes who took part and who was
// rejected, as Round::note_replies() does.
using KindOf = std::function<std::string(std::int64_t client)>;
void ask_to_train(const BaseMethod& base, Round& round, const KindOf& kind_of,
                  const std::function<void(Upload)>& take);
// The same with one kind for all.
void ask_to_train(const BaseMethod& base, Round& round, const std::string& kind,
                  const std::function<void(Upload)>& take);

// The same for sums alone: what the chosen clients' models add up to. Base hears the rest of every
// reply.
[[nodiscard]] Sums ask_for_training_sums(BaseMethod& base, Round& round, const std::string& kind);

}  // namespace winnow

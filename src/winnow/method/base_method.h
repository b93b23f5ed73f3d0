// A base method: one training round in parts, so that other methods can wrap it. Played alone it is
// a method like any other; ClipFL, FedNS and FedCorr take its parts and decide between them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "winnow/federation/aggregation.h"
#include "winnow/method/method.h"

namespace winnow {

// An uploaded model on its way into the next global one.
struct Upload {
  std::int64_t client = 0;
  Message reply;         // as the base method's schemas have it: "model", "samples", ...
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
ModelCount whole_round(const Setting& setting, std::string who);

// What is not overridden is FedAvg. Training tasks are of kind "train", their replies of kind
// "train_done"; both begin with the fields of FedAvg's (see schemas()), and a base method may add
// fields and further kinds. Its messages, client side and server side must agree.
class BaseMethod : public Method {
 public:
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Schema> schemas() const override;
  void play(std::int64_t round, Server& server) override;
  // A round with `count` of `pool`, its training tasks under the kind `kind`: select, begin, ask,
  // add for every reply, finish, note.
  void play_among(std::span<const std::int64_t> pool, std::int64_t count, const std::string& kind,
                  std::int64_t round, Server& server);

  // Chooses `count` of `pool` (ascending), or all when there are fewer.
  virtual std::vector<std::int64_t> select(std::span<const std::int64_t> pool, std::int64_t count,
                                           std::int64_t round, Server& server);
  // The task of one chosen client.
  virtual Message task(std::int64_t round, std::int64_t client, const State& global) const;
  // From uploads to the next global model: begin(), add() in the fleet's order, finish(). A round
  // may add fewer uploads than were asked for, with factors of the wrapper's choice.
  virtual void begin(const State& global);
  virtual void add(const Upload& upload);
  virtual State finish();
  // What the event of a round should show of how its models were fused, after finish().
  virtual void note(Json& /*notes*/) const {}
  // Whether Upload::weight() or its factor has a say in the next model. A wrapper that does nothing
  // but weigh clients refuses a base without.
  virtual bool weighs() const { return true; }
  // Refuses, with Error(kind experiment), a number of models that its rule can make nothing of. A
  // wrapper that hands over fewer than whole rounds asks this beside check().
  virtual void check_models(const ModelCount& /*count*/) const {}

 protected:
  // What local training adds to plain SGD.
  virtual LocalRule local_rule() const { return {}; }

 private:
  WeightedMean mean_;
};

// Sends base's training task to the chosen clients, to each under the kind that `kind_of` says, and
// hands over every reply whose model is finite, in the fleet's order. Notes who took part and who
// was rejected; throws Error(kind run) when nobody is left.
using KindOf = std::function<std::string(std::int64_t client)>;
void ask_to_train(const BaseMethod& base, const KindOf& kind_of, std::int64_t round,
                  const std::vector<std::int64_t>& chosen, Server& server,
                  const std::function<void(Upload)>& take);
// The same with one kind for all.
void ask_to_train(const BaseMethod& base, const std::string& kind, std::int64_t round,
                  const std::vector<std::int64_t>& chosen, Server& server,
                  const std::function<void(Upload)>& take);

// Notes who took part in a round and whose reply was rejected for values that are not finite;
// throws Error(kind run) when that is everybody.
void note_replies(std::int64_t round, const std::vector<std::int64_t>& chosen,
                  const std::vector<std::int64_t>& rejected, Json& notes);

// The clients a round may choose from; throws Error(kind run) when no client holds a sample.
std::vector<std::int64_t> selectable_clients(const Fleet& fleet);

}  // namespace winnow

// A method: the server-side algorithm together with its client-side handler. This file is the whole
// interface a new method has to know.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "winnow/base/catalog.h"
#include "winnow/base/params.h"
#include "winnow/federation/archive.h"
#include "winnow/federation/client.h"
#include "winnow/federation/exchange.h"
#include "winnow/federation/fleet.h"
#include "winnow/federation/message.h"
#include "winnow/model/net.h"
#include "winnow/train/options.h"

namespace winnow {

// The facts of a run that a method may plan with.
struct Setting {
  std::uint64_t seed = 0;
  std::int64_t rounds = 0;  // as the experiment says
  std::int64_t clients = 0;
  double fraction = 0.1;
  std::int64_t classes = 0;
  std::int64_t features = 0;    // what the head of the model takes; 0: not known
  std::int64_t validation = 0;  // samples in the server's own validation set
  LayoutPtr layout = nullptr;   // of the model that is trained
  // Ground truth, filled in only for a method that is registered with Truth::clients.
  std::vector<std::int64_t> noisy_clients = {};
  std::int64_t public_images = 0;  // images without labels that everybody has
  TrainOptions train = {};         // how the clients train
  SumForm sums = SumForm::floating;
};

// What a method's server side may use in a round: the fleet and the global model. It has no path to
// a client's data, to true labels or to the noise ledger.
struct Server {
  const Setting& setting;
  Fleet& fleet;
  State& global;  // replaced, never changed in place: clients and checkpoints share it
  Json& notes;    // what the round's event and the live line should show, by name
  // How models do on the server's own validation set, on all lanes; empty where there is none.
  std::function<std::vector<Score>(const std::vector<State>& models)> validate = {};
  // A fresh model of the run's network with values drawn from `seed`, for methods that train more
  // than the global one.
  std::function<State(std::uint64_t seed)> initial = {};
  // Ends the round by throwing once the run is asked to stop; for what takes long on the server.
  // Empty: nobody asks.
  std::function<void()> pause = {};
};

// What a method claims about its clients; the run layer measures it against the truth.
struct Findings {
  std::optional<std::vector<std::int64_t>> flagged = {};  // clients considered noisy
  std::map<std::int64_t, double> noise_levels = {};  // estimated shares of wrong labels, by client
  // The numbers behind these claims, by name and client: "lid", "ncs", "expertise", ...
  std::map<std::string, std::map<std::int64_t, double>> scores = {};
};

// How alike clients are to each other.
struct Likeness {
  std::string of;                                // what was compared
  std::int64_t known = 0;                        // clients that could be compared
  std::vector<std::int64_t> clients = {};        // those that were, ascending
  std::vector<std::vector<double>> values = {};  // a row for each of them, -1 to 1
};

// What only the pictures of a report need.
struct Details {
  // Scores as those of Findings, one map for every time that they were taken.
  std::map<std::string, std::vector<std::map<std::int64_t, double>>> series = {};
  std::optional<Likeness> likeness = {};
};

// Which models a run measures on the test set, hashes and writes down.
enum class Measured {
  global,    // the server's
  clients,   // those the clients keep as their own: the mean of their accuracies and losses
  ensemble,  // the same, as one: the mean of their probabilities
};

struct Offered;

// What a method's server has to see of the models that clients send.
enum class ServerSees {
  sums,                // their weighted sums are enough
  sums_in_two_phases,  // the same, once clients have told numbers from which choice or weights
                       // follow
  models,              // every single one
};

struct ServerNeeds {
  ServerSees sees = ServerSees::models;
  std::string why;  // half a sentence
  // Whether it can be played with federation.sums = "fixed". Of those that would need a second
  // phase some have it.
  bool plays_sums = false;

  static ServerNeeds sums(std::string why) { return {ServerSees::sums, std::move(why), true}; }
  static ServerNeeds two_phases(std::string why, bool plays) {
    return {ServerSees::sums_in_two_phases, std::move(why), plays};
  }
  static ServerNeeds models(std::string why) { return {ServerSees::models, std::move(why), false}; }
  // What "the server needs": "only sums of the models: it averages them".
  std::string said() const;
};

// One object per run. Calls come in this order: know, declare, (Params::read), check, then load
// when a run is resumed, then play for every round with save between rounds. Not thread-safe.
class Method {
 public:
  virtual ~Method() = default;

  // What the program has by name, for a method with a parameter that names some of it. What is kept
  // of it must be copied.
  virtual void know(const Offered& /*offered*/) {}
  // Declares the method's own parameters over its members.
  virtual void declare(Params& /*params*/) {}
  // Refuses an impossible setting with Error(kind experiment).
  virtual void check(const Setting& /*setting*/) const {}
  // How many rounds the run has; most methods take the experiment's number.
  virtual std::int64_t rounds(const Setting& setting) const { return setting.rounds; }
  // Where it has a number of its own: how it comes about, by the parameters that decide it.
  virtual std::string schedule(const Setting& /*setting*/) const { return {}; }
  // Names of the networks of clients 0, 1, 2, ..., taken round and round; none: all have the
  // experiment's. They see images of the size the experiment's network does.
  virtual std::vector<std::string> networks() const { return {}; }
  virtual Measured measured() const { return Measured::global; }
  // Whether it looks at what the head takes, or trains the head alone; a network that has a forward
  // pass only is then refused.
  virtual bool needs_features() const { return false; }
  // Why its clients must take steps of plain SGD: what of its arithmetic relies on them. Empty: any
  // train.optimizer will do. A method that wraps others speaks for the chosen one too.
  virtual std::string needs_sgd() const { return {}; }
  // What it has to see of the clients' models. A method that plays sums asks by
  // Round::ask_for_sums() where Round::by_sums() says so, and its exchanges mark the models.
  virtual ServerNeeds server_needs() const {
    return ServerNeeds::models("it does not say that sums would be enough");
  }
  // Width of the projection before the head that it wants where the experiment leaves the choice to
  // it; 0: none.
  virtual std::int64_t projection() const { return 0; }
  // The client side, made after the parameters are read.
  [[nodiscard]] virtual std::unique_ptr<ClientSide> client_side() const = 0;
  // Every task of the method with its reply; a client may answer a task only as it says.
  [[nodiscard]] virtual std::vector<Exchange> exchanges(const Setting& setting) const = 0;
  // Models beside the global one that are measured whenever it is, by the name under which the
  // round notes their accuracy.
  virtual std::map<std::string, State> also_measured(const Setting& /*setting*/) const {
    return {};
  }
  // Plays one round: asks the fleet and replaces server.global.
  virtual void play(std::int64_t round, Server& server) = 0;
  // What the method has found out so far, for the metrics.
  [[nodiscard]] virtual Findings findings() const { return {}; }
  // The same without the scores: what is measured after every round. A method whose scores take
  // long to put together says it apart.
  [[nodiscard]] virtual Findings claims() const { return findings(); }
  // More of it, asked for when files are written and not in every round.
  [[nodiscard]] virtual Details details() const { return {}; }
  // Under which name the run is to note how right the labels in use are after a round, -1 for
  // before the first; empty: it is not. Every name once in a run.
  virtual std::string keeps_labels_as(std::int64_t /*round*/, const Setting& /*setting*/) const {
    return {};
  }
  // Server-side state besides the global model. What is loaded may come from a forged checkpoint:
  // read it with the functions of Archive, which check it, and throw Error(kind run) where parts of
  // it contradict each other. What the clients remember is ClientSide::check_memory()'s business.
  virtual void save(Archive& /*archive*/) const {}
  virtual void load(const Archive& /*archive*/) {}
};

// What a method is told of the truth. Anything but none makes it an oracle, a bound to compare
// with, and it says so everywhere.
enum class Truth {
  none,
  samples,  // its clients hold only samples that are truly right
  clients,  // its server knows which clients are noisy
};

// How a method is known by name.
struct MethodInfo {
  std::string name;
  std::string group;    // "base", "robust aggregation", ...
  std::string summary;  // one line
  std::function<std::unique_ptr<Method>()> make;
  Truth truth = Truth::none;
  // Keys of an experiment with their values, by which a run of a few rounds and half a dozen
  // clients gets through all phases of the method. Every method is tested with them, on its own
  // and, as far as they are its own parameters, wrapped; a sweep over all methods sets them, too.
  Json smoke = Json::object();
  // Whether its model is meant to be good. One that plays rounds for another purpose is no
  // contestant: it has no row among "all" methods of an arena, where a rank would mean nothing.
  bool competes = true;
};

using Methods = Catalog<MethodInfo>;
const Methods& builtin_methods();

// What a method may choose from by name.
struct Offered {
  const Methods& methods;
  const Networks& networks;
};

}  // namespace winnow

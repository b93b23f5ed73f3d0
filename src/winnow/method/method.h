// A method: the server-side algorithm together with its client-side handler. This file is the whole
// interface a new method has to know.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/federation/archive.h"
#include "winnow/federation/client.h"
#include "winnow/federation/fleet.h"
#include "winnow/federation/message.h"

namespace winnow {

// The facts of a run that a method may plan with.
struct Setting {
  std::uint64_t seed = 0;
  std::int64_t rounds = 0;  // as the experiment says
  std::int64_t clients = 0;
  double fraction = 0.1;
  std::int64_t classes = 0;
  std::int64_t validation = 0;  // samples in the server's own validation set
  LayoutPtr layout = nullptr;   // of the model that is trained
  // Ground truth, filled in only for a method that is registered with Truth::clients.
  std::vector<std::int64_t> noisy_clients = {};
  std::int64_t public_images = 0;  // images without labels that everybody has
  double lr_decay = 1.0;           // the clients' learning rate is multiplied by it after a round
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
  clients,   // those the clients keep as kOwnModel: the mean of their accuracies and losses
  ensemble,  // the same, as one: the mean of their probabilities
};

class Registry;

// One object per run. Calls come in this order: know, declare, (Params::read), check, then load
// when a run is resumed, then play for every round with save between rounds. Not thread-safe.
class Method {
 public:
  virtual ~Method() = default;

  // The methods of the program, for a method that has one of them as a parameter.
  virtual void know(const Registry& /*methods*/) {}
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
  // Width of the projection before the head that it wants where the experiment leaves the choice to
  // it; 0: none.
  virtual std::int64_t projection() const { return 0; }
  // The client side, made after the parameters are read.
  virtual std::unique_ptr<ClientSide> client_side() const = 0;
  // Every kind of task and reply the method uses; a client may answer a task only as it says.
  virtual std::vector<Schema> schemas() const = 0;
  // Models beside the global one that are measured whenever it is, by the name under which the
  // round notes their accuracy.
  virtual std::map<std::string, State> also_measured(const Setting& /*setting*/) const {
    return {};
  }
  // Plays one round: asks the fleet and replaces server.global.
  virtual void play(std::int64_t round, Server& server) = 0;
  // What the method has found out so far, for the metrics.
  virtual Findings findings() const { return {}; }
  // More of it, asked for when files are written and not in every round.
  virtual Details details() const { return {}; }
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
};

// The methods a program knows. A program of your own starts from builtin_methods() and adds to it.
class Registry {
 public:
  // Throws Error(kind internal) when the name is taken.
  void add(MethodInfo info);
  const std::vector<MethodInfo>& all() const { return methods_; }
  // Throws Error(kind experiment) with a suggestion for an unknown name.
  const MethodInfo& find(const std::string& name) const;
  // The method of that name, which knows all the others.
  std::unique_ptr<Method> make(const std::string& name) const;

 private:
  std::vector<MethodInfo> methods_;
};

Registry builtin_methods();

}  // namespace winnow

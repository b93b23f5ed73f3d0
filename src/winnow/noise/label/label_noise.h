// Label noise: blocks of an experiment that change the labels clients see. The true labels stay.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/catalog.h"
#include "winnow/base/params.h"
#include "winnow/base/random.h"
#include "winnow/data/partition.h"
#include "winnow/noise/ledger.h"
#include "winnow/noise/scope.h"

namespace winnow {

// given[k][i] = the label client k sees for its i-th sample, aligned with the assignment.
using GivenLabels = std::vector<std::vector<std::int64_t>>;

// The labels of a training set as the clients hold them, before any noise.
GivenLabels labels_of_clients(const Assignment& assign, std::span<const std::int64_t> labels);

// What a kind of noise may know when it decides about the clients.
struct LabelNoiseContext {
  std::int64_t classes = 0;
  std::int64_t samples = 0;           // in the training set
  std::int64_t federation = 0;        // number of all clients
  std::vector<std::int64_t> clients;  // those the block is for, ascending
  std::string where;                  // the block's name in messages
};

// Changes a client's labels in place and returns how many samples it picked; `samples` are the
// client's indices in the training set.
using CorruptLabels = std::function<std::int64_t(std::span<const std::int64_t> samples,
                                                 std::span<std::int64_t> labels, Stream& stream)>;

// What will happen to one client.
struct ClientNoise {
  std::int64_t client = 0;
  double level = 0.0;     // intended share of corrupted samples
  bool chosen = false;    // counts as noisy even if no label ends up wrong
  CorruptLabels corrupt;  // empty: the client stays as it is
};

// A kind of label noise with its parameters. Calls come in this order: declare, (Params::read),
// finish, then plan any number of times.
class LabelNoiseRule {
 public:
  virtual ~LabelNoiseRule() = default;
  // Declares its own parameters over its members.
  virtual void declare(Params& /*params*/) {}
  // Fills and checks parameters that depend on each other, given the table they were read from;
  // throws Error(kind experiment) with `where`, the block's name, in front.
  virtual void finish(const Json& /*table*/, std::string_view /*where*/) {}
  // Decides about every client of the context, drawing from the block's stream of clients.
  virtual std::vector<ClientNoise> plan(const LabelNoiseContext& context, Stream& stream) const = 0;
};

// How a kind of label noise is known by name.
struct LabelNoiseInfo {
  std::string name;
  std::string summary;  // one line
  std::function<std::unique_ptr<LabelNoiseRule>()> make;
};

using LabelNoises = Catalog<LabelNoiseInfo>;
const LabelNoises& builtin_label_noises();

// What a block of noise is applied to, on labels or on images.
struct BlockInput {
  const Assignment& assign;
  std::span<const std::int64_t> true_labels;
  std::int64_t classes = 0;
  std::uint64_t seed = 0;
  std::uint64_t block = 0;  // position of the block in the experiment
};

// Records in the ledger what data.given_labels put on the clients: to be called before any block,
// with `given` as the clients got it.
void record_given_labels(const BlockInput& input, const GivenLabels& given, Ledger& ledger);

// One label noise block of an experiment.
class LabelNoise {
 public:
  // Throws Error(kind experiment) for an unknown name or option or a bad value; `where` is the
  // block's name in messages.
  static LabelNoise parse(const Json& table, const LabelNoises& known,
                          std::string_view where = "noise");

  const std::string& name() const { return name_; }
  const NoiseScope& scope() const { return scope_; }
  // The table with all defaults filled in; parse() reads it back.
  const Json& values() const { return values_; }

  // Changes `given`, starting from what earlier blocks left, and records it in the ledger. Draws
  // from (seed, "noise-clients", block) and, for each client, from (seed, "noise", block, client),
  // so a client's labels do not depend on the other clients' samples.
  void apply(const BlockInput& input, GivenLabels& given, Ledger& ledger) const;

 private:
  LabelNoise() = default;

  std::string name_;
  std::shared_ptr<const LabelNoiseRule> rule_;
  Json values_;
  NoiseScope scope_;
  std::string where_;
};

}  // namespace winnow

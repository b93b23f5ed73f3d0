// The client's side of the boundary: private data, private memory, and what its code may use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "winnow/data/data_set.h"
#include "winnow/federation/archive.h"
#include "winnow/federation/message.h"
#include "winnow/train/lane.h"

namespace winnow {

// Under this name a client's memory holds the model that is its own, flat, in methods without a
// global one: it is what such a run measures, hashes and writes down.
inline constexpr const char* kOwnModel = "model";

// Under this name a client's memory may hold which of its samples it last took for wrongly
// labelled: int64, 0 or 1 for each. The run judges it; nothing else reads it.
inline constexpr const char* kSuspected = "suspected";

// The samples a client holds and the labels it was given. Never changes.
struct ClientData {
  std::vector<std::int64_t> samples;
  Labels given;
};

// What a client remembers between tasks. Empty for methods without client state.
struct ClientMemory {
  std::optional<Labels> labels = {};  // the labels in use, once a method has corrected some
  // The labels the client last trained on, where it corrects them anew each time and keeps none.
  // Nothing trains on these: the run judges them.
  std::optional<Labels> last_labels = {};
  // Which of its samples the client last trained on, where the method chooses; by place.
  std::optional<std::vector<bool>> selected = {};
  Archive archive = {};

  bool empty() const {
    return !labels && !last_labels && !selected && archive.tensors.empty() &&
           archive.values.empty();
  }
};

// Everything a client's handler may touch while it answers one task.
class ClientContext {
 public:
  ClientContext(std::int64_t id, const ClientData& data, ClientMemory& memory, Lane& lane,
                const TrainOptions& options, std::uint64_t seed, const Feed* public_feed = nullptr)
      : id_(id),
        data_(data),
        memory_(memory),
        lane_(lane),
        options_(options),
        seed_(seed),
        public_feed_(public_feed) {}

  std::int64_t id() const { return id_; }
  std::int64_t size() const { return static_cast<std::int64_t>(data_.samples.size()); }
  // All local samples with the labels in use.
  LocalSet local_set() const {
    return {data_.samples, memory_.labels ? *memory_.labels : data_.given};
  }
  ClientMemory& memory() { return memory_; }
  Lane& lane() { return lane_; }
  // The experiment's; a handler may change them for the task it answers.
  TrainOptions& options() { return options_; }
  std::uint64_t seed() const { return seed_; }
  // Images that everybody has, without labels; throws Error(kind internal) where there are none.
  const Feed& public_feed() const;

  // Trains on all local samples, or on `set`, in the round of the task, and counts the steps.
  TrainOutcome train(const State& start, std::int64_t round, const LocalRule& rule) {
    return train(start, local_set(), round, rule);
  }
  TrainOutcome train(const State& start, const LocalSet& set, std::int64_t round,
                     const LocalRule& rule) {
    TrainOutcome outcome = lane_.train(start, set, options_, rule, {seed_, round, id_});
    steps_ += outcome.steps;
    return outcome;
  }
  // The view of all local samples for one scoring pass: augmented as in training, with one draw
  // keyed by purpose and round, or as they are where the lane does not augment.
  Jitter draw_view(std::string_view purpose, std::int64_t round) const;
  // The given or corrected labels on the lane's device.
  at::Tensor labels_tensor() const;
  // Counts steps that were taken on the lane directly.
  void took(std::int64_t steps) { steps_ += steps; }
  std::int64_t steps() const { return steps_; }

 private:
  std::int64_t id_;
  const ClientData& data_;
  ClientMemory& memory_;
  Lane& lane_;
  TrainOptions options_;
  std::uint64_t seed_;
  const Feed* public_feed_;
  std::int64_t steps_ = 0;
};

// The client-side handler of a method. One object serves all clients of a process, possibly from
// several threads at once: it is const, and everything that lasts lives in the client's memory.
class ClientSide {
 public:
  virtual ~ClientSide() = default;
  virtual Message handle(const Message& task, ClientContext& context) const = 0;
  // Looks at a memory out of a checkpoint, which may be forged, before any task comes: what
  // handle() will read must be of the type, the shape and the range that it relies on. Throws
  // Error(kind run). The labels in use and the selection are checked by the engine.
  virtual void check_memory(ClientContext& /*context*/) const {}
};

}  // namespace winnow

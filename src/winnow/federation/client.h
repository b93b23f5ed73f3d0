// The client's side of the boundary: private data, private memory, and what its code may use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "winnow/data/data_set.h"
#include "winnow/federation/memory.h"
#include "winnow/federation/message.h"
#include "winnow/train/lane.h"

namespace winnow {

// The samples a client holds and the labels it was given. Never changes.
struct ClientData {
  std::vector<std::int64_t> samples;
  Labels given;
};

// Everything a client's handler may touch while it answers one task.
class ClientContext {
 public:
  ClientContext(std::int64_t id, const ClientData& data, ClientMemory& memory, Lane& lane,
                const TrainOptions& options, std::uint64_t seed, const Feed* public_feed = nullptr)
      : id_(id),
        data_(data),
        memory_(memory),
        archive_(&memory.own),
        lane_(lane),
        options_(options),
        seed_(seed),
        public_feed_(public_feed) {
    lane_.trainer().forget_counts();
  }

  std::int64_t id() const { return id_; }
  std::int64_t size() const { return std::ssize(data_.samples); }
  // All local samples with the labels in use.
  LocalSet local_set() const {
    return {data_.samples, memory_.trace.labels ? *memory_.trace.labels : data_.given};
  }
  // What the client's code keeps for itself until the next task.
  Archive& archive() { return *archive_; }
  // Keeps a tensor there; it must not be changed in place afterwards.
  void remember(const std::string& name, at::Tensor tensor);
  // What is kept under that name, or `otherwise`.
  [[nodiscard]] at::Tensor recall(const std::string& name, const at::Tensor& otherwise = {}) const;
  void forget(const std::string& name) { archive_->tensors.erase(name); }
  // Calls `handle` with the private state of the method that this one wraps.
  template <typename Handle>
  decltype(auto) as_base(const Handle& handle) {
    struct Back {
      Archive*& place;
      Archive* own;
      ~Back() { place = own; }
    };
    const Back back{archive_, std::exchange(archive_, &memory_.base)};
    return handle(*this);
  }
  Trace& trace() { return memory_.trace; }
  // The client's own model in methods without a global one; undefined while there is none.
  at::Tensor& own_model() { return memory_.model; }
  at::Tensor& last_model() { return memory_.last_model; }
  // What trains and what scores; the models of one are those of the other.
  Trainer& trainer() { return lane_.trainer(); }
  Scorer& scorer() { return lane_.scorer(); }
  // The experiment's; a handler may change them for the task it answers.
  TrainOptions& options() { return options_; }
  std::uint64_t seed() const { return seed_; }
  // The images that the client's samples are numbers of, and how training varies them.
  const Feed& feed() const { return lane_.feed(); }
  Augment augment() const { return lane_.augment(); }
  // The network: its classes, the shape of its input and weights, fresh values of these.
  std::int64_t classes() const { return lane_.classes(); }
  std::vector<std::int64_t> input_shape() const { return lane_.input_shape(); }
  const LayoutPtr& layout() const { return lane_.layout(); }
  [[nodiscard]] State initial(std::uint64_t seed) const { return lane_.initial(seed); }
  // Images that everybody has, without labels; throws Error(kind internal) where there are none.
  const Feed& public_feed() const;

  // Trains on all local samples, or on `set`, in the round of the task.
  TrainOutcome train(const State& start, std::int64_t round, const LocalRule& rule) {
    return train(start, local_set(), round, rule);
  }
  TrainOutcome train(const State& start, const LocalSet& set, std::int64_t round,
                     const LocalRule& rule) {
    return trainer().train(start, set, options_, rule, key(round));
  }
  // The same by another objective, all epochs at once. A client without samples returns the model
  // as it is.
  [[nodiscard]] State train_by(const Objective& objective, const State& start, std::int64_t round);
  // Names the random streams of this participation.
  [[nodiscard]] TrainKey key(std::int64_t round) const { return {seed_, round, id_}; }

  // Logits of all local samples under that model, in eval mode, batch by batch.
  [[nodiscard]] at::Tensor logits(const State& model, std::int64_t batch, const Jitter& view = {});
  // How that model does on all local samples, or on `set`.
  [[nodiscard]] Score score(const State& model) { return score(model, local_set()); }
  [[nodiscard]] Score score(const State& model, const LocalSet& set);
  // What the head takes and what it says of all local samples, in eval mode, under the first model
  // as it is.
  struct Seen {
    at::Tensor features;  // [samples, width]
    at::Tensor logits;    // [samples, classes]
  };
  [[nodiscard]] Seen features();
  // What a scoring pass sees: draw_view()'s, or the images as they are.
  [[nodiscard]] Jitter view(ScoreView how, std::string_view purpose, std::int64_t round) const {
    return how == ScoreView::clean ? Jitter() : draw_view(purpose, round);
  }
  // The view of all local samples for one scoring pass: augmented as in training, with one draw
  // keyed by purpose and round, or as they are where the lane does not augment.
  [[nodiscard]] Jitter draw_view(std::string_view purpose, std::int64_t round) const;
  // The given or corrected labels on the lane's device.
  [[nodiscard]] at::Tensor labels_tensor() const;
  // What training has counted since the context was made.
  std::int64_t steps() const { return lane_.trainer().steps(); }
  const TrainingLoss& loss() const { return lane_.trainer().loss(); }

 private:
  std::int64_t id_;
  const ClientData& data_;
  ClientMemory& memory_;
  Archive* archive_;
  Lane& lane_;
  TrainOptions options_;
  std::uint64_t seed_;
  const Feed* public_feed_;
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

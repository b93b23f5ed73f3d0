// The local engine: a whole federation on one machine, its clients served by lanes.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "winnow/base/ordered_pool.h"
#include "winnow/data/data_set.h"
#include "winnow/engine/lane_choice.h"
#include "winnow/federation/client.h"
#include "winnow/federation/fleet.h"
#include "winnow/train/feed.h"
#include "winnow/train/lane.h"

namespace winnow {

// How products are computed on a GPU; a CPU always uses float32.
enum class Precision {
  fp32,
  tf32,  // float32 with tensor cores, 10 bits of mantissa in products
  bf16,  // bfloat16 training over float32 master weights; scoring as tf32
};

struct LocalEngineOptions {
  std::int64_t lanes = 1;  // 0: as many as prove fastest
  at::Device device = at::kCPU;
  Precision precision = Precision::fp32;
  bool augment = false;
  std::int64_t resize = 0;
  std::uint64_t seed = 0;
  at::Tensor public_images = {};  // bytes, shaped as the data set's; undefined: there are none
};

// A Fleet over clients in this process, and the evaluation of models on the test set by the same
// lanes. Client memory changes in steps: what tasks changed since the last commit() can be taken
// back with rollback(), so that an interrupted round leaves no trace.
class LocalEngine : public Fleet {
 public:
  LocalEngine(const DataSet& data, std::vector<ClientData> clients, const NetInfo& net,
              const TrainOptions& train, const LocalEngineOptions& options,
              const std::atomic<bool>* stop);

  // The method's client side and message kinds; must be set before ask(). Client k has network
  // k mod n of `networks`, or with none of them the experiment's.
  void serve(std::unique_ptr<ClientSide> side, std::vector<Schema> schemas,
             const std::vector<NetInfo>& networks = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(clients_.size()); }
  std::int64_t samples(std::int64_t client) const override;
  void ask(const std::vector<Order>& orders, const Fold& fold) override;
  const Traffic& traffic() const override { return traffic_; }
  void restore(const Traffic& traffic) { traffic_ = traffic; }

  // On the test set.
  Score evaluate(const State& model);
  // The models that clients keep as their own (kOwnModel), by client.
  std::map<std::int64_t, State> own_models() const { return models_kept_as(kOwnModel); }
  // All of them on the test set: their sum, or the mean of their probabilities as one model.
  Score evaluate_clients();
  Score evaluate_ensemble();
  // By client that remembers a model under that name: how many test samples of every class it gets
  // right.
  std::map<std::int64_t, std::vector<std::int64_t>> right_by_class(const std::string& name);
  // Each model on the validation set; the data set must have one.
  std::vector<Score> validate(const std::vector<State>& models);
  State initial_state(std::uint64_t seed) const;
  const LayoutPtr& layout() const { return lanes_.front()->layout(); }
  const std::string& head_name() const { return prototype_->head_name(); }
  // Throws Error(kind experiment) where the network has no features.
  void check_features() const { prototype_->check_features(); }
  // Those that work at a time now.
  std::int64_t lanes() const { return choice_.lanes(); }
  bool lanes_settled() const { return choice_.settled(); }
  at::Device device() const { return train_feed_.device(); }
  Precision precision() const { return precision_; }

  // Returns the clients whose memory changed, ascending.
  std::vector<std::int64_t> commit();
  void rollback();
  // Committed memory, of clients that have any.
  const std::map<std::int64_t, ClientMemory>& memories() const { return memories_; }
  // Replaces it by what a checkpoint holds, which may be forged: throws Error(kind run) that names
  // the client where it does not fit the data, the networks or the method's client side.
  void restore(std::map<std::int64_t, ClientMemory> memories);

 private:
  void check_memory(std::int64_t client, ClientMemory& memory);
  // Refuses orders that break the contract of ask().
  void check_orders(const std::vector<Order>& orders) const;
  // The client's memory with all pending changes; null when it has none.
  const ClientMemory* memory_of(std::int64_t client) const;
  // Models in the clients' memories, by client.
  std::map<std::int64_t, State> models_kept_as(const std::string& name) const;
  std::unique_ptr<Lane> make_lane(const NetInfo& net) const;
  // What serves a client: the worker's lane of its network, made when first needed.
  Lane& lane_for(std::size_t worker, std::int64_t client);
  const LayoutPtr& layout_of(std::int64_t client) const;

  TrainOptions train_;
  Precision precision_;
  std::uint64_t seed_;
  NetShape shape_;
  bool augment_;
  const std::atomic<bool>* stop_;
  std::vector<ClientData> clients_;
  Feed train_feed_;
  std::optional<Feed> public_feed_;
  // Samples the server itself measures models on.
  struct Measure {
    Measure(const Samples& samples, const Normalisation& normalisation, std::int64_t resize,
            at::Device device);
    Feed feed;
    Labels labels;
    std::vector<std::int64_t> samples;
  };
  // `owners`: whose models they are; none: they are of the experiment's network.
  std::vector<Score> score(const std::vector<State>& models, const Measure& measure,
                           const std::vector<std::int64_t>& owners = {});

  Measure test_;
  std::optional<Measure> validation_;
  std::unique_ptr<Net> prototype_;
  LaneChoice choice_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  // A network that clients have in place of the experiment's, with a lane per worker.
  struct OtherNetwork {
    NetInfo net;
    LayoutPtr layout;
    std::vector<std::unique_ptr<Lane>> lanes = {};
  };
  std::vector<OtherNetwork> networks_;
  OrderedPool pool_;
  std::unique_ptr<ClientSide> side_;
  std::vector<Schema> schemas_;
  std::map<std::int64_t, ClientMemory> memories_;
  std::map<std::int64_t, ClientMemory> pending_;  // changed since the last commit
  Traffic traffic_;
};

}  // namespace winnow

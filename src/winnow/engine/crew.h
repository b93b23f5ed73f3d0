// The crew: the lanes of one process, and the threads that work with them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "winnow/base/ordered_pool.h"
#include "winnow/data/data_set.h"
#include "winnow/engine/lane_choice.h"
#include "winnow/engine/prototype.h"
#include "winnow/engine/workforce.h"
#include "winnow/train/feed.h"
#include "winnow/train/lane.h"

namespace winnow {

struct CrewOptions {
  std::int64_t lanes = 1;  // 0: as many as prove fastest
  at::Device device = at::kCPU;
  Precision precision = Precision::fp32;
  bool augment = false;
  std::int64_t resize = 0;
};

// Trains and scores by lanes that share one feed of training images. Clients may have networks of
// their own: client k has network k mod n of use_networks(), or without any the experiment's.
class Crew {
 public:
  Crew(const DataSet& data, const NetInfo& net, const CrewOptions& options,
       const std::atomic<bool>* stop);

  void use_networks(const std::vector<NetInfo>& networks);

  // Does `count` pieces of work, each on the thread of a worker, and hands each in the order of its
  // number to `take` on the caller's thread. Waits first for what that thread has asked the device
  // to do.
  void run(std::size_t count, const std::function<void(std::size_t worker, std::size_t item)>& work,
           const std::function<void(std::size_t item)>& take);

  // A worker's lane of the experiment's network; of workers that run() has numbered, or 0.
  Lane& lane(std::size_t worker) { return *lanes_[worker]; }
  // The worker's lane of the client's network, made when first needed.
  Lane& lane_for(std::size_t worker, std::int64_t client);
  const LayoutPtr& layout() const { return lanes_.front()->layout(); }
  const LayoutPtr& layout_of(std::int64_t client) const;
  // Of all networks.
  std::vector<LayoutPtr> layouts() const;

  // Of the experiment's network.
  const Prototype& prototype() const { return prototype_; }
  at::Device device() const { return feed_.device(); }
  // Those that work at a time now.
  std::int64_t lanes() const { return choice_.lanes(); }
  // The crew as one that works alone.
  Workforce workforce() const;
  // What the present number of lanes has done, by which the best number is found.
  void note(std::int64_t steps, double seconds) { choice_.note(steps, seconds); }

 private:
  std::unique_ptr<Lane> make_lane(const NetInfo& net) const;
  // As many of the experiment's network as work at a time now.
  void make_lanes();

  // A network that clients have in place of the experiment's, with a lane per worker.
  struct OtherNetwork {
    NetInfo net;
    LayoutPtr layout;
    std::vector<std::unique_ptr<Lane>> lanes = {};
  };

  Precision precision_;
  bool augment_;
  const std::atomic<bool>* stop_;
  Feed feed_;
  Prototype prototype_;
  LaneChoice choice_;
  NetInfo net_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<OtherNetwork> networks_;
  OrderedPool pool_;
};

}  // namespace winnow

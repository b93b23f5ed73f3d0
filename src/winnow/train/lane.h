// A lane: one trainer. It owns a network, the flat buffers of its weights, gradient and momentum,
// and an input buffer, all allocated once and reused for every client it serves.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>

#include "winnow/model/net.h"
#include "winnow/train/feed.h"
#include "winnow/train/options.h"
#include "winnow/train/plan.h"

namespace winnow {

// Thrown out of a lane when the run is asked to stop; not an error.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

// What one local training adds to the options of the experiment.
struct LocalRule {
  double proximal = 0.0;  // FedProx's mu
};

struct TrainOutcome {
  State state;  // the trained model, the caller's own copy
  std::int64_t steps = 0;
  double mean_loss = 0.0;  // over all samples of all epochs
};

// Correct predictions and summed cross-entropy over some samples.
struct Score {
  std::int64_t correct = 0;
  std::int64_t count = 0;
  double loss_sum = 0.0;

  Score& operator+=(const Score& other);
  double accuracy() const {
    return count == 0 ? 0.0 : static_cast<double>(correct) / static_cast<double>(count);
  }
  double mean_loss() const { return count == 0 ? 0.0 : loss_sum / static_cast<double>(count); }
};

// Not thread-safe: a lane is used by one thread at a time.
class Lane {
 public:
  // `feed` gives the training images and must outlive the lane; `stop` too, when given: it is
  // looked at before every step, and Interrupted is thrown once it is set.
  Lane(std::unique_ptr<Net> net, const Feed& feed, bool augment,
       const std::atomic<bool>* stop = nullptr);

  // Trains a copy of `start` on `set`: fresh optimiser, `options.epochs` epochs. An empty set
  // returns `start` as it is. No host synchronisation inside a step.
  TrainOutcome train(const State& start, const LocalSet& set, const TrainOptions& options,
                     const LocalRule& rule, const TrainKey& key);

  // Loads weights for the scoring calls below.
  void load(const State& state);
  // Logits of the loaded model in eval mode, in the order of `samples`, batch by batch as they
  // come. `feed` may be another one than the lane's (the test images). `jitter` as in Feed::batch,
  // over all samples.
  at::Tensor logits(const Feed& feed, std::span<const std::int64_t> samples, std::int64_t batch,
                    const Jitter& jitter = {});
  // Accuracy and cross-entropy of the loaded model in eval mode.
  Score score(const Feed& feed, const LocalSet& set, std::int64_t batch);

  const Feed& feed() const { return *feed_; }
  bool augment() const { return augment_; }
  const LayoutPtr& layout() const { return layout_; }

 private:
  at::Tensor step_loss(const Plan& plan, std::size_t number, const TrainOptions& options);
  void check_stop() const;

  std::unique_ptr<Net> net_;
  const Feed* feed_;
  bool augment_;
  const std::atomic<bool>* stop_;
  LayoutPtr layout_;
  State state_;          // what the network's weights are views of
  at::Tensor gradient_;  // flat, parameters only
  at::Tensor velocity_;
  at::Tensor loss_sum_;  // double, on the device
  at::Tensor input_;     // reused by the feed
  at::Generator dropout_;
};

}  // namespace winnow

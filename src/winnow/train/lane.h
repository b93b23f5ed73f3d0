// A lane: one trainer. It owns a network, the flat buffers of its weights, gradient and momentum,
// and an input buffer, all allocated once and reused for every client it serves. For methods that
// train or compare several models side by side it owns as many networks.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "winnow/model/net.h"
#include "winnow/train/feed.h"
#include "winnow/train/gpu/gpu_trainer.h"
#include "winnow/train/objective.h"
#include "winnow/train/options.h"
#include "winnow/train/passes.h"
#include "winnow/train/plan.h"
#include "winnow/train/rule.h"

namespace winnow {

// Thrown out of a lane when the run is asked to stop; not an error.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

struct TrainOutcome {
  State state;  // the trained model, the caller's own copy
  std::int64_t steps = 0;
  double mean_loss = 0.0;  // over all samples of all epochs
  double step_loss = 0.0;  // over all steps, whatever the size of their batches
};

// Correct predictions and summed cross-entropy over some samples.
struct Score {
  std::int64_t correct = 0;
  std::int64_t count = 0;
  double loss_sum = 0.0;
  std::int64_t among_five = 0;  // samples whose label is among the five likeliest classes

  Score& operator+=(const Score& other);
  double accuracy() const {
    return count == 0 ? 0.0 : static_cast<double>(correct) / static_cast<double>(count);
  }
  double top5() const {
    return count == 0 ? 0.0 : static_cast<double>(among_five) / static_cast<double>(count);
  }
  double mean_loss() const { return count == 0 ? 0.0 : loss_sum / static_cast<double>(count); }
};

// How many rows have fewer than five values above that of their label; a value that is not a number
// counts as above. `labels` is [rows].
std::int64_t count_among_five(const at::Tensor& values, const at::Tensor& labels);

// Not thread-safe: a lane is used by one thread at a time.
class Lane {
 public:
  // `feed` gives the training images and must outlive the lane; `stop` too, when given: it is
  // looked at before every step, and Interrupted is thrown once it is set. With `low`, a GPU trains
  // in bfloat16 over float32 weights; scoring is always float32.
  Lane(MakeNet make, const Feed& feed, bool augment, const std::atomic<bool>* stop = nullptr,
       bool low = false);

  // Trains a copy of `start` on `set`: fresh optimiser, `options.epochs` epochs. An empty set
  // returns `start` as it is. No host synchronisation inside a step.
  TrainOutcome train(const State& start, const LocalSet& set, const TrainOptions& options,
                     const LocalRule& rule, const TrainKey& key);

  // Training by an objective of one's own, of one or several models: begin(), then run() any number
  // of times with scoring calls in between, then model().
  // Model i starts as `starts[i]`, all with fresh optimisers; `key` seeds the dropout.
  void begin(const std::vector<State>& starts, const TrainKey& key);
  // Takes every step of the plan and returns the loss of each, on the device. `feed` gives other
  // images than the lane's own. Steps of Adam or AdamW and on such images are computed one by one,
  // in float32; between two begin() they do not mix with captured ones.
  at::Tensor run(const Plan& plan, const Objective& objective, const Stepping& how,
                 const Feed* feed = nullptr);
  // The model as it is now, a copy.
  [[nodiscard]] State model(std::size_t number = 0) const {
    return replicas_[number].state.clone();
  }
  // A buffer of the lane's own on its device, at least `rows` rows of that shape; what it holds is
  // kept until a larger one is asked for. Objectives keep here what captured steps read and write.
  at::Tensor buffer(const std::string& name, std::int64_t rows,
                    const std::vector<std::int64_t>& row_shape, at::ScalarType type);

  // Fresh values of the lane's network, on its device.
  [[nodiscard]] State initial(std::uint64_t seed) const;

  // Runs `work` on the lane's own stream of a GPU; on a CPU simply runs it.
  void on_stream(const std::function<void()>& work) const;

  // Loads weights into the first model for the scoring calls below.
  void load(const State& state);
  // Logits of the loaded model in eval mode, in the order of `samples`, batch by batch as they
  // come. `feed` may be another one than the lane's (the test images). `jitter` as in Feed::batch,
  // over all samples. `model` chooses another one after begin().
  [[nodiscard]] at::Tensor logits(const Feed& feed, std::span<const std::int64_t> samples,
                                  std::int64_t batch, const Jitter& jitter = {},
                                  std::size_t model = 0);
  // The same pass, batch by batch and with the features: `visit` sees the head's input and output.
  // With `training`, batch statistics are used and running ones move, as in a step.
  using Visit = std::function<void(const at::Tensor& features, const at::Tensor& logits)>;
  void each_batch(const Feed& feed, std::span<const std::int64_t> samples, std::int64_t batch,
                  const Jitter& jitter, bool training, const Visit& visit, std::size_t model = 0);
  // For every batch of the lane's own images the gradient of `loss` in the named parameter of the
  // loaded model; weights do not change. `loss` gets the logits and where the batch starts.
  using BatchLoss = std::function<at::Tensor(const at::Tensor& logits, std::int64_t start)>;
  void each_gradient(std::span<const std::int64_t> samples, std::int64_t batch, bool training,
                     const std::string& parameter, const BatchLoss& loss,
                     const std::function<void(const at::Tensor& gradient)>& visit);
  // Logits of the loaded model in eval mode for images that are already network input.
  [[nodiscard]] at::Tensor output(const at::Tensor& images);
  // Channels, height and width of network input.
  std::vector<std::int64_t> input_shape() const {
    return {feed_->channels(), feed_->height(), feed_->width()};
  }

  // Accuracy and cross-entropy of the loaded model in eval mode.
  Score score(const Feed& feed, const LocalSet& set, std::int64_t batch);

  // All passes of the lane so far, training and scoring.
  const Passes& passes() const { return passes_; }

  const Feed& feed() const { return *feed_; }
  Augment augment() const { return augment_; }
  const LayoutPtr& layout() const { return layout_; }
  // Classes that the network tells apart.
  std::int64_t classes() const { return replicas_.front().net->classes(); }

 private:
  // A model on a CPU, or on a GPU what scores it.
  struct Replica {
    std::unique_ptr<Net> net;
    State state;             // what the network's weights are views of
    at::Tensor gradient;     // flat, parameters only
    at::Tensor velocity;     // or Adam's mean; on a GPU only where steps are not captured
    at::Tensor square = {};  // of Adam
    at::Tensor anchor = {};  // where it started from
    std::int64_t steps = 0;  // taken since begin()
  };

  void add_replica();
  Batch make_batch(const Plan& plan, std::size_t number, bool entries, const Feed& feed);
  // Network input for the samples, batch by batch, without gradients.
  void each_input(const Feed& feed, std::span<const std::int64_t> samples, std::int64_t batch,
                  const Jitter& jitter, const std::function<void(const at::Tensor& images)>& visit);
  at::Tensor run_one_by_one(const Plan& plan, const Objective& objective, const Stepping& how,
                            const Feed& feed);
  void step(Replica& replica, const Stepping& how, bool pulled);
  // First value and number of values of the head inside the flat parameters.
  std::pair<std::int64_t, std::int64_t> head_range() const;
  void check_stop() const;

  MakeNet make_;
  const Feed* feed_;
  Augment augment_;
  const std::atomic<bool>* stop_;
  at::Generator dropout_;
  std::unique_ptr<GpuTrainer> gpu_;
  std::deque<Replica> replicas_;
  LayoutPtr layout_;
  at::Tensor input_;  // reused by the feed
  Passes passes_;
  std::map<std::string, at::Tensor> buffers_;
};

}  // namespace winnow

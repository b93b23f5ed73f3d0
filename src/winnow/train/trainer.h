// Trains the networks of a lane, one or several side by side, and counts what it does.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "winnow/train/nets.h"
#include "winnow/train/objective.h"
#include "winnow/train/options.h"
#include "winnow/train/passes.h"
#include "winnow/train/plan.h"
#include "winnow/train/rule.h"

namespace winnow {

struct TrainOutcome {
  State state;  // the trained model, the caller's own copy
  std::int64_t steps = 0;
  double mean_loss = 0.0;  // over all samples of all epochs
  double step_loss = 0.0;  // over all steps, whatever the size of their batches
};

// What training minimised, summed over the samples that it went through.
struct TrainingLoss {
  double sum = 0.0;
  std::int64_t samples = 0;

  TrainingLoss& operator+=(const TrainingLoss& other) {
    sum += other.sum;
    samples += other.samples;
    return *this;
  }
  // Nothing where nothing was trained on.
  std::optional<double> mean() const {
    return samples == 0 ? std::nullopt : std::optional(sum / static_cast<double>(samples));
  }
};

// Not thread-safe.
class Trainer {
 public:
  // The networks must outlive it. No host synchronisation inside a step.
  explicit Trainer(Nets& nets) : nets_(&nets), moments_(nets.size()) {}

  // Trains a copy of `start` on `set`: fresh optimiser, `options.epochs` epochs. An empty set
  // returns `start` as it is. Steps of the head alone are not counted.
  TrainOutcome train(const State& start, const LocalSet& set, const TrainOptions& options,
                     const LocalRule& rule, const TrainKey& key);

  // Training by an objective of one's own, of one or several models: begin(), then take_steps() any
  // number of times with scoring calls in between, then model().
  // Model i starts as `starts[i]`, all with fresh optimisers; `key` seeds the dropout.
  void begin(const std::vector<State>& starts, const TrainKey& key);
  // Takes every step of the plan, waits for the device, and counts the steps of every model and
  // what they minimised.
  void take_steps(const Plan& plan, const Objective& objective, const Stepping& how);
  // Takes every step of the plan and returns the loss of each, on the device, without waiting.
  // `feed` gives other images than the lane's own: such steps are not counted. Steps of Adam or
  // AdamW and on such images are computed one by one, in float32; between two begin() they do not
  // mix with captured ones.
  at::Tensor run(const Plan& plan, const Objective& objective, const Stepping& how,
                 const Feed* feed = nullptr);
  // The model as it is now, a copy.
  [[nodiscard]] State model(std::size_t number = 0) const { return (*nets_)[number].state.clone(); }
  // The same, complete on the device: ready to be sent.
  [[nodiscard]] State finished_model(std::size_t number = 0) const;
  // A buffer of the trainer's own on its device, at least `rows` rows of that shape; what it holds
  // is kept until a larger one is asked for. Objectives keep here what captured steps read and
  // write.
  at::Tensor buffer(const std::string& name, std::int64_t rows,
                    const std::vector<std::int64_t>& row_shape, at::ScalarType type);

  // What it has done since forget_counts().
  std::int64_t steps() const { return steps_; }
  const TrainingLoss& loss() const { return loss_; }
  void forget_counts();
  // Counts steps that were taken before that.
  void count_earlier(std::int64_t steps) { steps_ += steps; }
  // All its passes so far.
  const Passes& passes() const { return passes_; }

 private:
  // What a model's optimiser keeps.
  struct Moments {
    at::Tensor velocity = {};  // or Adam's mean; on a GPU only where steps are not captured
    at::Tensor square = {};    // of Adam
    at::Tensor anchor = {};    // where the model started from
    std::int64_t steps = 0;    // taken since begin()
  };

  at::Tensor take(const Plan& plan, const Objective& objective, const Stepping& how,
                  const Feed* feed);
  Batch make_batch(const Plan& plan, std::size_t number, bool entries, const Feed& feed);
  at::Tensor take_one_by_one(const Plan& plan, const Objective& objective, const Stepping& how,
                             const Feed& feed);
  void step(std::size_t model, const Stepping& how, bool pulled);
  // First value and number of values of the head inside the flat parameters.
  std::pair<std::int64_t, std::int64_t> head_range() const;

  Nets* nets_;
  std::vector<Moments> moments_;  // of every model
  std::map<std::string, at::Tensor> buffers_;
  std::int64_t steps_ = 0;
  TrainingLoss loss_;
  Passes passes_;
};

}  // namespace winnow

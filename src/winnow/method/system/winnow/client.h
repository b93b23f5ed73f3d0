// The client side of Winnow's own method.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "winnow/federation/client.h"
#include "winnow/method/system/winnow/arithmetic.h"
#include "winnow/train/objective.h"
#include "winnow/train/options.h"

namespace winnow::winnowing {

// Puts its samples through models that it is sent, tells sums of what they say, and where the
// server doubts its labels trains less on those that the image speaks against (spec: winnow 2, 4).
// Training of other clients is the base method's, and nothing of the above changes it.
//
// It remembers tensors["seen"], the probabilities of its samples over the models so far, and
// tensors["thresholds"], from which on it last counted a probability as confident.
class Client final : public ClientSide {
 public:
  Client(Options options, std::unique_ptr<ClientSide> base);

  Message handle(const Message& task, ClientContext& context) const override;
  void check_memory(ClientContext& context) const override;

 private:
  Message look(const Message& task, ClientContext& context) const;
  // The probabilities of its samples over what it has seen `before`, if anything, and that model.
  at::Tensor seen_now(const at::Tensor& before, const State& model, ClientContext& context) const;
  static Message count(const Message& task, ClientContext& context);
  Message train_doubted(const Message& task, ClientContext& context) const;
  // Trains on every sample by its share of their `total`.
  static State train_weighed(const std::vector<double>& share, double total, const State& start,
                             std::int64_t round, ClientContext& context);

  Options options_;
  std::unique_ptr<ClientSide> base_;
};

// Cross-entropy of a batch as the options have it, every sample times its weight; the mean over the
// batch's samples (spec: winnow 4).
class WeighedCrossEntropy final : public Objective {
 public:
  // `weights`: a trainer's buffer, float, one for every entry of the plan.
  WeighedCrossEntropy(at::Tensor weights, const TrainOptions& options)
      : weights_(std::move(weights)),
        label_smoothing_(options.label_smoothing),
        temperature_(options.temperature) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  bool reads_entries() const override { return true; }

 private:
  at::Tensor weights_;
  double label_smoothing_;
  double temperature_;
};

}  // namespace winnow::winnowing

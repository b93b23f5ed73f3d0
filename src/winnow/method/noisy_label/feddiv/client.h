// The client side of FedDiv.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "winnow/federation/client.h"
#include "winnow/method/noisy_label/feddiv/arithmetic.h"
#include "winnow/train/objective.h"

namespace winnow::feddiv {

// Cross-entropy as FedAvg minimises it, mixed up or not, plus eta times how far the batch's mean
// prediction is from uniform.
class Objective final : public winnow::Objective {
 public:
  Objective(const TrainOptions& options, double eta) : plain_(options), eta_(eta) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;

 private:
  CrossEntropy plain_;
  double eta_;
};

// Splits its samples with the filter it is sent, repairs or leaves out the noisy ones, trains, and
// fits a filter of its own to the losses after training (spec: rivals 1).
//
// Remembers tensors["feddiv.local"], the class that its last model gave each sample,
// tensors["feddiv.prior"], its running mean of predictions, and values["feddiv.participations"]
// after the warm-up. A model that diverged changes nothing of that. The trace has what it last
// suspected, trained on, and with which labels.
class Client final : public ClientSide {
 public:
  explicit Client(Options options) : options_(options) {}

  Message handle(const Message& task, ClientContext& context) const override;
  void check_memory(ClientContext& context) const override;

 private:
  Message train(const Message& task, ClientContext& context) const;
  Chosen chosen(const Message& task, ClientContext& context) const;
  State train_on(const Chosen& chosen, const State& start, std::int64_t round,
                 ClientContext& context) const;
  // Remembers what the trained model says, and returns its filter; empty when its output is not
  // finite.
  std::vector<double> look_back(const Message& task, const State& trained,
                                ClientContext& context) const;

  Options options_;
};

}  // namespace winnow::feddiv

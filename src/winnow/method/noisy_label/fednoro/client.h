// The client side of FedNoRo, and what FedELC's shares with it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>

#include "winnow/federation/client.h"
#include "winnow/train/objective.h"

namespace winnow::fednoro {

// w KL(teacher || p) + (1 - w) cross-entropy, p from logits adjusted by the class frequencies; a
// class that the client does not have takes no part in the divergence (spec: rivals 2.4). Batch
// means.
at::Tensor distilled_loss(const at::Tensor& logits, const at::Tensor& labels,
                          const at::Tensor& teacher, const at::Tensor& prior,
                          const at::Tensor& weight);

// What a step reads, buffers of the trainer.
struct Buffers {
  at::Tensor prior;    // float [classes]
  at::Tensor teacher;  // float [samples, classes]: what the received model says, by place
  at::Tensor place;    // int64 [entries]
  at::Tensor weight;   // float [1]
};

class Objective final : public winnow::Objective {
 public:
  explicit Objective(Buffers buffers) : buffers_(std::move(buffers)) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override { return "fednoro"; }
  bool reads_entries() const override { return true; }

 private:
  Buffers buffers_;
};

// Answers "train" with logit-adjusted training and "class_losses"; other tasks are for its heirs.
class Client : public ClientSide {
 public:
  Message handle(const Message& task, ClientContext& context) const override;

 protected:
  // The model that a noisy client makes of the received one.
  virtual State train_noisy(const Message& task, ClientContext& context) const = 0;
};

class DistillingClient final : public Client {
 public:
  explicit DistillingClient(double temperature) : temperature_(temperature) {}

 protected:
  State train_noisy(const Message& task, ClientContext& context) const override;

 private:
  double temperature_;
};

}  // namespace winnow::fednoro

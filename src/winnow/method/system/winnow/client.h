// The client side of Winnow's own method.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>

#include "winnow/federation/client.h"
#include "winnow/method/system/winnow/arithmetic.h"
#include "winnow/train/objective.h"

namespace winnow::winnowing {

// Puts its samples through models that it is sent, tells sums of what they say, and where the
// server doubts its labels trains on what it can be sure of (spec: winnow 2, 4). Training of other
// clients is the base method's, and nothing of the above changes it.
//
// It remembers tensors["seen"], the probabilities of its samples over the models so far.
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

  Options options_;
  std::unique_ptr<ClientSide> base_;
};

// -log sum_j p_j e_ji of a batch's labels i, its mean (spec: winnow 4.2).
at::Tensor forward_loss(const at::Tensor& logits, const at::Tensor& labels,
                        const at::Tensor& evidence);

class ForwardLoss final : public Objective {
 public:
  // `evidence`: a trainer's buffer, float [classes, classes].
  explicit ForwardLoss(at::Tensor evidence) : evidence_(std::move(evidence)) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override { return "winnow forward"; }

 private:
  at::Tensor evidence_;
};

}  // namespace winnow::winnowing

// The client side of RHFL: it keeps a model of its own, learns from what the others predict for the
// public images, and trains on its own data with a loss that wrong labels disturb less.
#pragma once

#include <cstdint>

#include "winnow/federation/client.h"

namespace winnow::rhfl {

struct ClientOptions {
  double alpha = 0.1;  // of the symmetric cross-entropy
  double beta = 1.0;
  Optimizer optimiser = Optimizer::adam;  // or SGD, as [train] says
  double lr = 1e-3;                       // of Adam
  std::int64_t batch_size = 256;
  std::int64_t public_batch = 256;
  std::int64_t pretrain_epochs = 40;
  std::int64_t local_epochs = 0;  // 0: by the sizes, see local_epochs()
};

// max(1, |public| / |private|), rounded down: as many samples in both parts of a round.
std::int64_t local_epochs(std::int64_t public_images, std::int64_t samples);

// Answers four kinds of task: "pretrain" makes the model and trains it, "probabilities" says what
// it predicts for a public batch, "learn" takes one step towards a target for such a batch, "train"
// trains on the own data. The model is the client's own in its memory. Optimiser steps on public
// images are counted with the training that follows them, so that a round is one participation.
class Client final : public ClientSide {
 public:
  explicit Client(ClientOptions options) : options_(options) {}

  Message handle(const Message& task, ClientContext& context) const override;
  void check_memory(ClientContext& context) const override;

 private:
  Message train(const State& start, std::int64_t epochs, std::int64_t round, std::int64_t key_round,
                ClientContext& context) const;
  Message predict(std::int64_t batch, ClientContext& context) const;
  Message learn(const Message& task, ClientContext& context) const;
  // The mean symmetric cross-entropy on the own data in eval mode.
  double own_loss(const State& model, ClientContext& context) const;
  // Steps of Adam with its usual constants.
  Stepping adam() const { return {.lr = options_.lr, .optimizer = Optimizer::adam}; }
  Plan public_plan(std::int64_t batch, const ClientContext& context) const;

  ClientOptions options_;
};

}  // namespace winnow::rhfl

// The client side of FedEFC (spec: rivals 5).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>

#include "winnow/federation/client.h"
#include "winnow/train/objective.h"

namespace winnow::fedefc {

// -log((T p)_given + 1e-12), the batch mean; T[given][true].
at::Tensor forward_loss(const at::Tensor& logits, const at::Tensor& labels,
                        const at::Tensor& matrix);

// What a step reads and writes, buffers of the trainer.
struct Buffers {
  at::Tensor matrix;   // float [classes, classes]; undefined: cross-entropy
  at::Tensor correct;  // uint8 [entries]: whether the label was predicted
};

// Cross-entropy as FedAvg minimises it, or forward_loss(). Records what was predicted rightly.
class Objective final : public winnow::Objective {
 public:
  Objective(Buffers buffers, const TrainOptions& options)
      : buffers_(std::move(buffers)), plain_(options) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  bool reads_entries() const override { return true; }

 private:
  Buffers buffers_;
  CrossEntropy plain_;
};

// Trains as FedAvg does, and after the pre-stop corrects the loss by the matrix that it estimates
// from its own samples under the received model. Tells its training accuracy; remembers nothing.
class Client final : public ClientSide {
 public:
  explicit Client(bool prior) : prior_(prior) {}

  Message handle(const Message& task, ClientContext& context) const override;

 private:
  at::Tensor matrix(const State& model, ClientContext& context) const;

  bool prior_;
};

}  // namespace winnow::fedefc

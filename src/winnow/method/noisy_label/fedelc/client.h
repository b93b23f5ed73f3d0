// The client side of FedELC (spec: rivals 3).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>

#include "winnow/method/noisy_label/fednoro/client.h"

namespace winnow::fedelc {

// The names are those of the method's parameters.
struct Options {
  std::int64_t warmup = 20;
  double alpha = 0.5;
  double beta = 0.2;
  double lambda = 1000.0;
  double k = 10.0;
  bool masked = false;
  double keep = 0.8;
};

// What a step of a batch comes to: the loss, and what its label logits are to be moved along.
struct Estimate {
  at::Tensor loss;      // 0-dimensional
  at::Tensor gradient;  // of the loss in the label logits, [batch, classes]
};
// (1/C) KL(p || q) + alpha CE(q, given) + beta (1/C) H(p), p = softmax(logits), q =
// softmax(label_logits), batch means; the alpha term over the samples whose `counted` is 1.
Estimate estimate(const at::Tensor& logits, const at::Tensor& label_logits, const at::Tensor& given,
                  const at::Tensor& counted, double alpha, double beta);

// K (softmax(label_logits) + prediction) / 2.
at::Tensor merged(const at::Tensor& label_logits, const at::Tensor& prediction, double k);

// What a step reads and writes, buffers of the trainer.
struct Buffers {
  at::Tensor labels;    // float [samples, classes]: label logits, by place
  at::Tensor gradient;  // float [samples, classes]: by place
  at::Tensor place;     // int64 [entries] of the epoch
  at::Tensor counts;    // int64 [steps]: samples of the batch whose given label counts
};

class Objective final : public winnow::Objective {
 public:
  Objective(Buffers buffers, const Options& options)
      : buffers_(std::move(buffers)), alpha_(options.alpha), beta_(options.beta) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  bool reads_entries() const override { return true; }

 private:
  Buffers buffers_;
  double alpha_;
  double beta_;
};

// A noisy client learns a distribution of labels for every sample beside its model. Remembers
// tensors["fedelc.labels"], their logits; the trace has the likeliest classes as those it last
// trained on. A model that diverged changes nothing of that.
class Client final : public fednoro::Client {
 public:
  explicit Client(const Options& options) : options_(options) {}

  void check_memory(ClientContext& context) const override;

 protected:
  State train_noisy(const Message& task, ClientContext& context) const override;

 private:
  at::Tensor kept_counts(const Plan& plan) const;
  void remember(const at::Tensor& labels, ClientContext& context) const;

  Options options_;
};

}  // namespace winnow::fedelc

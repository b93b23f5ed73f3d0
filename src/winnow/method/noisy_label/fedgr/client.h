// The client side of FedGR (spec: rivals 4).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "winnow/federation/client.h"
#include "winnow/method/noisy_label/fedgr/arithmetic.h"
#include "winnow/train/objective.h"

namespace winnow::fedgr {

// c CE(z, given) + (1 - c) CE(z, refined), a refined label of -1 counting nothing; the batch mean.
at::Tensor refined_loss(const at::Tensor& logits, const at::Tensor& given,
                        const at::Tensor& refined, const at::Tensor& clean);

// KL(softmax(target / T) || softmax(value / T)), the batch mean.
at::Tensor divergence(const at::Tensor& target, const at::Tensor& value, double temperature);

// What a step reads, buffers of the trainer, all by place but the last.
struct Buffers {
  at::Tensor clean;     // float [samples]: weight of the given label
  at::Tensor refined;   // int64 [samples]: or -1
  at::Tensor slow;      // float [samples, classes]: logits of the slow model
  at::Tensor features;  // float [samples, features]: of the received model
  at::Tensor place;     // int64 [entries]
};

class Objective final : public winnow::Objective {
 public:
  Objective(Buffers buffers, const Options& options)
      : buffers_(std::move(buffers)), options_(options) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  bool reads_entries() const override { return true; }

 private:
  Buffers buffers_;
  Options options_;
};

// Remembers tensors["fedgr.losses"], the mean of the received models' losses on every sample,
// values["fedgr.seen"], how many these were, tensors["fedgr.slow"], its slow model, and with
// selection = "intra" tensors["fedgr.clean"], the probabilities that its samples are clean. A model
// that diverged changes nothing of that.
class Client final : public ClientSide {
 public:
  explicit Client(Options options) : options_(options) {}

  Message handle(const Message& task, ClientContext& context) const override;
  void check_memory(ClientContext& context) const override;

 private:
  // What the received model makes of all local samples.
  struct View {
    at::Tensor logits;    // on the images as they are
    at::Tensor weak;      // on augmented ones, where the lane augments
    at::Tensor features;  // of the same
    std::vector<double> losses;
    bool finite = false;
  };
  View look(const State& model, std::int64_t round, ClientContext& context) const;
  std::vector<double> clean_before(const Message& task, ClientContext& context) const;
  void remember_losses(const View& view, ClientContext& context) const;
  State train_refined(const Message& task, const View& view, std::vector<double> clean,
                      ClientContext& context) const;
  at::Tensor slow_logits(const State& slow, std::int64_t round, ClientContext& context) const;

  Options options_;
};

}  // namespace winnow::fedgr

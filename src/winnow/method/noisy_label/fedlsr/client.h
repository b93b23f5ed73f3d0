// The client side of FedLSR.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "winnow/federation/client.h"
#include "winnow/method/noisy_label/fedlsr/views.h"
#include "winnow/train/objective.h"

namespace winnow::fedlsr {

// How the two views of an image are made; by_channels: colour where there are three.
enum class ViewChoice { by_channels, colour, rotation };

// The method's parameters. Client and server sides share them.
struct Options {
  double gamma = 0.4;
  double warmup_share = 0.2;
  double lambda_e = 0.6;
  ViewChoice views = ViewChoice::by_channels;
  bool literal_ce = false;
  bool literal_js = true;
  bool literal_entropy = false;
};

void declare(Options& options, Params& params);

// What images of that many channels are looked at through. Throws Error(kind experiment) when
// colours are asked for and there are none.
Views views_for(const Options& options, std::int64_t channels);

// Cross-entropy of the mixed and sharpened views, plus gamma times their divergence, plus lambda_e
// times their entropy. For plans of two views; each goes through the network on its own.
class Objective final : public winnow::Objective {
 public:
  // Draws the views and the mixing weights of the plan into the trainer's buffers.
  Objective(const Options& options, double gamma, const Plan& plan, const TrainKey& key,
            const Feed& feed, Trainer& trainer);

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  bool reads_entries() const override { return true; }

 private:
  Options options_;
  Views views_;
  at::Tensor scale_, shift_;  // how bytes were normalised
  at::Tensor knobs_;          // [entries, 2, values]
  at::Tensor lambdas_;        // by step
  at::Tensor gamma_;          // one value
};

// Trains the received model on pairs of views; remembers nothing. The loss is FedLSR's own: label
// smoothing, temperature and mixup of the experiment are not used.
class Client final : public ClientSide {
 public:
  explicit Client(Options options) : options_(options) {}

  Message handle(const Message& task, ClientContext& context) const override;

 private:
  Options options_;
};

}  // namespace winnow::fedlsr

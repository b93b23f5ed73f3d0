// The client side of RoFL.
#pragma once

#include "winnow/federation/client.h"
#include "winnow/method/noisy_label/rofl/arithmetic.h"

namespace winnow::rofl {

// Takes pseudo-labels, and without received centroids its own class means, from one pass of the
// received model over its samples, trains, and sends its model and centroids. What lasts is
// `selected`: the samples kept in the last epoch. The loss is RoFL's own: label smoothing,
// temperature and mixup of the experiment are not used.
class Client final : public ClientSide {
 public:
  explicit Client(const Options& options) : options_(options) {}

  Message handle(const Message& task, ClientContext& context) const override;

 private:
  Options options_;
};

}  // namespace winnow::rofl

#include "winnow/method/trainer/gce/gce.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "winnow/method/local_training.h"
#include "winnow/train/soft_loss.h"

namespace winnow {
namespace {

constexpr double kLeastProbability = 1e-7;  // keeps the gradient of p^q finite

class BoundedClient final : public ClientSide {
 public:
  BoundedClient(double q, double scale) : q_(q), scale_(scale) {}

  Message handle(const Message& task, ClientContext& context) const override {
    return train_done(
        context.train_by(BoundedLoss(q_, scale_), task.get<State>("model"), round_of(task)),
        context);
  }

 private:
  double q_;
  double scale_;
};

at::Tensor label_probabilities(const at::Tensor& logits, const at::Tensor& labels) {
  return logits.softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1);
}

}  // namespace

at::Tensor generalised_cross_entropies(const at::Tensor& logits, const at::Tensor& labels,
                                       double q) {
  return (1 - label_probabilities(logits, labels).clamp_min(kLeastProbability).pow(q)) / q;
}

at::Tensor absolute_errors(const at::Tensor& logits, const at::Tensor& labels) {
  return (logits.softmax(1) - one_hot_rows(labels, logits.size(1))).abs().sum(1);
}

at::Tensor BoundedLoss::loss(const Batch& batch, const Models& models) const {
  const at::Tensor logits = models.logits(0, batch.images);
  const auto loss = [&](const at::Tensor& labels) {
    return generalised_cross_entropies(logits, labels, q_).mean() * scale_;
  };
  if (!batch.lambda.defined()) {
    return loss(batch.labels);
  }
  return loss(batch.labels) * batch.lambda + loss(batch.partner_labels) * (1 - batch.lambda);
}

std::string BoundedLoss::signature() const {
  return fmt::format("bounded loss {} {}", q_, scale_);
}

void Gce::declare(Params& params) {
  params
      .add("q", q_,
           "how much the influence of wrong labels is limited: near 0 as in cross-entropy, at 1 as "
           "in the mean absolute error")
      .range(0.001, 1)
      .source("paper");
}

std::unique_ptr<ClientSide> Gce::client_side() const {
  return std::make_unique<BoundedClient>(q_, 1.0);
}

std::unique_ptr<ClientSide> Mae::client_side() const {
  return std::make_unique<BoundedClient>(1.0, 2.0);
}

MethodInfo gce_info() {
  return {"gce", "local trainer", "generalised cross-entropy, a loss robust to wrong labels",
          [] { return std::make_unique<Gce>(); }};
}

MethodInfo mae_info() {
  return {"mae", "local trainer", "mean absolute error of the predicted probabilities",
          [] { return std::make_unique<Mae>(); }};
}

}  // namespace winnow

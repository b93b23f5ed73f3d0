#include "winnow/method/trainer/sce/sce.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "winnow/base/math.h"
#include "winnow/method/local_training.h"
#include "winnow/train/loss.h"
#include "winnow/train/soft_loss.h"

namespace winnow {
namespace {

constexpr double kLeastLabel = 1e-4;
constexpr double kLeastPrediction = 1e-7;

class SceClient final : public ClientSide {
 public:
  SceClient(double alpha, double beta) : alpha_(alpha), beta_(beta) {}

  Message handle(const Message& task, ClientContext& context) const override {
    const sce::SymmetricCrossEntropy objective(alpha_, beta_, context.options());
    return train_done(context.train_by(objective, task.get<State>("model"), round_of(task)),
                      context);
  }

 private:
  double alpha_;
  double beta_;
};

}  // namespace

at::Tensor sce::reverse_cross_entropies(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor p = logits.softmax(1).clamp_min(kLeastPrediction);
  const at::Tensor others = 1 - one_hot_rows(labels, logits.size(1));
  return (p * others).sum(1) * -math::log(kLeastLabel);
}

sce::SymmetricCrossEntropy::SymmetricCrossEntropy(double alpha, double beta,
                                                  const TrainOptions& options)
    : alpha_(alpha),
      beta_(beta),
      label_smoothing_(options.label_smoothing),
      temperature_(options.temperature) {}

at::Tensor sce::SymmetricCrossEntropy::loss(const Batch& batch, const Models& models) const {
  const at::Tensor logits = models.logits(0, batch.images);
  const auto loss = [&](const at::Tensor& labels) {
    const at::Tensor value =
        smoothed_cross_entropy(logits, labels, label_smoothing_, temperature_) * alpha_;
    // Without the second term the rest is bit for bit what FedAvg minimises.
    return beta_ == 0.0 ? value
                        : value + sce::reverse_cross_entropies(logits, labels).mean() * beta_;
  };
  if (!batch.lambda.defined()) {
    return loss(batch.labels);
  }
  return loss(batch.labels) * batch.lambda + loss(batch.partner_labels) * (1 - batch.lambda);
}

std::string sce::SymmetricCrossEntropy::signature() const {
  return fmt::format("symmetric cross-entropy {} {} {} {}", alpha_, beta_, label_smoothing_,
                     temperature_);
}

void Sce::declare(Params& params) {
  params.add("alpha", alpha_, "weight of the cross-entropy").at_least(0).source("paper, CIFAR-10");
  params.add("beta", beta_, "weight of the reverse cross-entropy; 0 with alpha = 1: FedAvg")
      .at_least(0)
      .source("paper");
}

std::unique_ptr<ClientSide> Sce::client_side() const {
  return std::make_unique<SceClient>(alpha_, beta_);
}

MethodInfo sce_info() {
  return {"sce", "local trainer", "symmetric cross-entropy, a loss robust to wrong labels",
          [] { return std::make_unique<Sce>(); }};
}

}  // namespace winnow

#include "winnow/method/trainer/feddecorr/feddecorr.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "winnow/method/local_training.h"

namespace winnow {
namespace {

constexpr double kLeastVariance = 1e-8;

class DecorrelatingClient final : public ClientSide {
 public:
  explicit DecorrelatingClient(double beta) : beta_(beta) {}

  Message handle(const Message& task, ClientContext& context) const override {
    return train_done(context.train_by(DecorrelatedCrossEntropy(context.options(), beta_),
                                       task.get<State>("model"), round_of(task)),
                      context);
  }

 private:
  double beta_;
};

}  // namespace

at::Tensor correlation_penalty(const at::Tensor& features) {
  const auto width = static_cast<double>(features.size(1));
  const auto rows = static_cast<double>(features.size(0));
  const at::Tensor centred = features - features.mean(0, /*keepdim=*/true);
  const at::Tensor variance = centred.square().mean(0, /*keepdim=*/true);
  const at::Tensor scaled = centred / (variance + kLeastVariance).sqrt();
  return scaled.t().matmul(scaled).div(rows).square().sum() / (width * width);
}

at::Tensor DecorrelatedCrossEntropy::loss(const Batch& batch, const Models& models) const {
  if (beta_ == 0.0) {
    return plain_.loss(batch, models);
  }
  const at::Tensor features = models[0].features(batch.images, models.training);
  const at::Tensor logits = models[0].logits(features).to(at::kFloat);
  return plain_.loss_of(logits, batch) + correlation_penalty(features.to(at::kFloat)) * beta_;
}

std::string DecorrelatedCrossEntropy::signature() const {
  return fmt::format("feddecorr {} {}", beta_, plain_.signature());
}

void FedDecorr::declare(Params& params) {
  params.add("beta", beta_, "weight of the correlation of features; 0: FedAvg")
      .at_least(0)
      .source("paper, FNBench");
}

std::unique_ptr<ClientSide> FedDecorr::client_side() const {
  return std::make_unique<DecorrelatingClient>(beta_);
}

MethodInfo feddecorr_info() {
  return {"feddecorr", "local trainer", "FedAvg whose clients keep their features uncorrelated",
          [] { return std::make_unique<FedDecorr>(); }};
}

}  // namespace winnow

#include "winnow/method/trainer/logit_adjustment/logit_adjustment.h"

#include <ATen/ATen.h>

#include <vector>

#include "winnow/base/math.h"
#include "winnow/method/local_training.h"

namespace winnow {
namespace {

class AdjustingClient final : public ClientSide {
 public:
  explicit AdjustingClient(double tau) : tau_(tau) {}

  Message handle(const Message& task, ClientContext& context) const override {
    context.options().mixup = 0.0;  // a mixture has no class of its own to be frequent
    return train_done(context.train_by(AdjustedCrossEntropy(prior_buffer(context, tau_)),
                                       task.get<State>("model"), round_of(task)),
                      context);
  }

 private:
  double tau_;
};

}  // namespace

at::Tensor log_prior(std::span<const std::int64_t> labels, std::int64_t classes, double tau) {
  std::vector<double> counts(static_cast<std::size_t>(classes), 0.0);
  for (const std::int64_t label : labels) {
    counts[static_cast<std::size_t>(label)] += 1.0;
  }
  at::Tensor prior = at::empty({classes}, at::kFloat);
  for (std::size_t c = 0; c < counts.size(); ++c) {
    prior.data_ptr<float>()[c] =
        counts[c] > 0.0
            ? static_cast<float>(tau * math::log(counts[c] / static_cast<double>(labels.size())))
            : kAbsentClass;
  }
  return prior;
}

at::Tensor prior_buffer(ClientContext& context, double tau) {
  Trainer& trainer = context.trainer();
  return fill(trainer, "logit_adjustment.prior",
              log_prior(context.local_set().labels, context.classes(), tau))
      .narrow(0, 0, context.classes());
}

at::Tensor AdjustedCrossEntropy::loss(const Batch& batch, const Models& models) const {
  return at::cross_entropy_loss(models.logits(0, batch.images) + prior_, batch.labels);
}

void LogitAdjustment::declare(Params& params) {
  params.add("tau", tau_, "how much of the class frequencies is added to the logits")
      .at_least(0)
      .source("FedNoRo's code");
}

std::unique_ptr<ClientSide> LogitAdjustment::client_side() const {
  return std::make_unique<AdjustingClient>(tau_);
}

MethodInfo logit_adjustment_info() {
  return {"logit_adjustment", "local trainer",
          "cross-entropy adjusted to a client's class frequencies",
          [] { return std::make_unique<LogitAdjustment>(); }};
}

}  // namespace winnow

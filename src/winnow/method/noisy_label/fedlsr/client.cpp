#include "winnow/method/noisy_label/fedlsr/client.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/random.h"
#include "winnow/method/local_training.h"
#include "winnow/method/noisy_label/fedlsr/losses.h"

namespace winnow::fedlsr {
namespace {

at::Tensor knobs_of(Views views, const Plan& plan, const TrainKey& key) {
  Stream stream(key.seed, "fedlsr views", key.round, key.client);
  return draw_knobs(views, 2 * plan.entries(), stream).view({plan.entries(), 2, -1});
}

at::Tensor lambdas_of(const Plan& plan, const TrainKey& key) {
  Stream stream(key.seed, "fedlsr lambda", key.round, key.client);
  std::vector<float> lambdas(plan.batches.size());
  for (float& lambda : lambdas) {
    lambda = static_cast<float>(stream.beta(1.0, 1.0));
  }
  return at::tensor(lambdas);
}

}  // namespace

void declare(Options& options, Params& params) {
  params
      .add("gamma", options.gamma,
           "weight of the divergence between the predictions for the two views of an image")
      .at_least(0)
      .source("released notebook; ClipFL's comparison uses 0.25");
  params
      .add("warmup_share", options.warmup_share, "share of the rounds in which gamma rises from 0")
      .range(0, 1)
      .source("released notebook");
  params.add("lambda_e", options.lambda_e, "weight of the entropy of the predictions")
      .at_least(0)
      .source("released notebook");
  params
      .add("views", options.views,
           {{"auto", ViewChoice::by_channels},
            {"colour", ViewChoice::colour},
            {"rotation", ViewChoice::rotation}},
           "how the two views of an image are made; auto: colour with three channels, otherwise "
           "rotation")
      .source("released notebook: colour for CIFAR, rotation for MNIST");
  params
      .add("literal_ce", options.literal_ce,
           "feed probabilities to the cross-entropy as if they were logits, as the released "
           "notebook does")
      .source("paper; the released notebook: true");
  params
      .add("literal_js", options.literal_js,
           "also divide the divergence by the number of classes, as the released notebook does")
      .source("released notebook");
  params
      .add("literal_entropy", options.literal_entropy,
           "take the entropy of a second softmax of the first view alone, as the released notebook "
           "does")
      .source("spec: baselines 18; the notebook does");
}

Views views_for(const Options& options, std::int64_t channels) {
  if (options.views == ViewChoice::colour && channels != 3) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.views = \"colour\": expected images of 3 channels, these have "
                            "{}",
                            channels),
                "use views = \"rotation\"");
  }
  const bool colour = options.views == ViewChoice::by_channels
                          ? channels == 3
                          : options.views == ViewChoice::colour;
  return colour ? Views::colour : Views::rotation;
}

Objective::Objective(const Options& options, double gamma, const Plan& plan, const TrainKey& key,
                     const Feed& feed, Trainer& trainer)
    : options_(options),
      views_(views_for(options, feed.channels())),
      scale_(feed.scale()),
      shift_(feed.shift()),
      knobs_(fill(trainer, "fedlsr.knobs", knobs_of(views_, plan, key))),
      lambdas_(fill(trainer, "fedlsr.lambdas", lambdas_of(plan, key))),
      gamma_(fill(trainer, "fedlsr.gamma", at::tensor({static_cast<float>(gamma)}))) {}

at::Tensor Objective::loss(const Batch& batch, const Models& models) const {
  const std::int64_t size = batch.labels.size(0);
  at::Tensor images;
  {
    const c10::NoGradGuard no_gradient;
    const at::Tensor knobs = knobs_.index_select(0, batch.entries).transpose(0, 1);
    images = make_views(views_, batch.images, knobs.reshape({2 * size, -1}), scale_, shift_);
  }
  const at::Tensor first = models.logits(0, images.narrow(0, 0, size));
  const at::Tensor second = models.logits(0, images.narrow(0, size, size));
  const at::Tensor lambda = lambdas_.index_select(0, batch.step);
  const at::Tensor q = confident(first);
  const at::Tensor other_q = confident(second);
  return class_loss(sharpened(mixed(first, second, lambda)), batch.labels, options_.literal_ce) +
         gamma_.select(0, 0) * divergence(q, other_q, options_.literal_js) +
         options_.lambda_e * entropy(q, other_q, options_.literal_entropy);
}

std::string Objective::signature() const {
  return fmt::format("fedlsr {} {} {} {} {}", options_.lambda_e, options_.literal_ce,
                     options_.literal_js, options_.literal_entropy, views_ == Views::colour);
}

Message Client::handle(const Message& task, ClientContext& context) const {
  const std::int64_t round = round_of(task);
  TrainOptions& options = context.options();
  options.mixup = 0.0;
  Trainer& trainer = context.trainer();
  const TrainKey key = context.key(round);
  const Plan plan = make_plan(context.local_set(), options, context.augment(), key, /*views=*/2);
  trainer.begin({task.get<State>("model")}, key);
  trainer.take_steps(
      plan, Objective(options_, task.get<double>("gamma"), plan, key, context.feed(), trainer),
      stepping(options, round));
  return train_done(trainer.finished_model(), context);
}

}  // namespace winnow::fedlsr

#include "winnow/method/trainer/dividemix/dividemix.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>

#include "winnow/base/random.h"
#include "winnow/method/clean_set.h"
#include "winnow/method/local_training.h"
#include "winnow/method/trainer/dividemix/mix_plan.h"
#include "winnow/method/trainer/dividemix/objective.h"
#include "winnow/train/loss.h"

namespace winnow {
namespace {

// Remembers the split the first network trained on in the last epoch: what the second took for
// clean.
class DivideMixClient final : public ClientSide {
 public:
  explicit DivideMixClient(const dividemix::Options& options) : options_(options) {}

  Message handle(const Message& task, ClientContext& context) const override {
    context.options().mixup = 0.0;  // it mixes by itself
    const std::int64_t round = round_of(task);
    if (round < options_.warmup || context.size() == 0) {
      return train_twins(task, context);
    }
    if (options_.epochs > 0) {
      context.options().epochs = options_.epochs;
    }
    Trainer& trainer = context.trainer();
    trainer.begin({task.get<State>("model"), task.get<State>("second")}, context.key(round));
    for (std::int64_t epoch = 0; epoch < context.options().epochs; ++epoch) {
      // Both split with the models the epoch begins with; each then trains on the other's split.
      const std::array<std::vector<double>, 2> clean{split(1, round, epoch, context),
                                                     split(0, round, epoch, context)};
      for (std::size_t network = 0; network < 2; ++network) {
        train_epoch(network, clean.at(network), round, epoch, context);
      }
      context.trace().selected = clean_mask(clean.front(), options_.threshold);
    }
    return twin_reply(trainer.finished_model(0), trainer.finished_model(1), context);
  }

 private:
  std::vector<double> split(std::size_t network, std::int64_t round, std::int64_t epoch,
                            ClientContext& context) const {
    const Jitter view = context.view(options_.score_view,
                                     fmt::format("dividemix score {} {}", epoch, network), round);
    const std::int64_t batch =
        options_.score_batch > 0 ? options_.score_batch : context.options().eval_batch;
    const at::Tensor outputs =
        context.scorer().logits(context.feed(), context.local_set().samples, batch, view, network);
    const at::Tensor values =
        losses(outputs, context.labels_tensor()).to(at::kDouble).cpu().contiguous();
    const auto* first = values.data_ptr<double>();
    return clean_probability({first, first + values.numel()});
  }

  void train_epoch(std::size_t network, const std::vector<double>& clean, std::int64_t round,
                   std::int64_t epoch, ClientContext& context) const {
    Trainer& trainer = context.trainer();
    const TrainOptions& train = context.options();
    const Stepping how = stepping(train, round, {network});
    const dividemix::MixPlan made = dividemix::make_mix_plan(
        context.local_set(), clean,
        {.batch_size = train.batch_size,
         .alpha = options_.alpha,
         .threshold = options_.threshold,
         .augment = context.augment()},
        stream_key(context.seed(), "dividemix",
                   {static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(context.id()),
                    static_cast<std::uint64_t>(epoch), network}));
    if (made.plan.batches.empty()) {
      const Plan plan =
          make_plan(context.local_set(), train, context.augment(), context.key(round));
      trainer.take_steps(plan.epoch(epoch, train.epochs),
                         dividemix::NetworkCrossEntropy(network, train), how);
      return;
    }
    const dividemix::MixBuffers buffers{
        .clean = fill(trainer, "dividemix.clean", made.clean),
        .partner = fill(trainer, "dividemix.partner", made.partner),
        .lambda = fill(trainer, "dividemix.lambda", made.lambda),
        .weight = fill(trainer, "dividemix.weight", weights(round, made.lambda.size(0)))};
    trainer.take_steps(
        made.plan, dividemix::MixObjective(buffers, network, made.unlabelled, options_.temperature),
        how);
  }

  // Time passes with the batches of an epoch.
  at::Tensor weights(std::int64_t round, std::int64_t steps) const {
    at::Tensor result = at::empty({steps}, at::kFloat);
    for (std::int64_t step = 0; step < steps; ++step) {
      const double t =
          static_cast<double>(round) + static_cast<double>(step) / static_cast<double>(steps);
      result.data_ptr<float>()[step] = static_cast<float>(
          dividemix::unlabelled_weight(t, options_.lambda_u, options_.warmup, options_.ramp));
    }
    return result;
  }

  dividemix::Options options_;
};

}  // namespace

void DivideMix::declare(Params& params) {
  params.add("warmup", options_.warmup, "rounds at the start that train both models as FedAvg does")
      .at_least(0)
      .source("FedRN's comparison; FedCorr uses 20");
  params
      .add("lambda_u", options_.lambda_u,
           "weight of the loss on unlabelled samples once the ramp ends")
      .at_least(0)
      .source("FedRN's comparison; FedCorr: 0 or 25 for CIFAR-10, 25 or 150 for CIFAR-100");
  params
      .add("ramp", options_.ramp,
           "rounds after the warm-up in which the weight of unlabelled samples rises to lambda_u")
      .at_least(0)
      .source("paper");
  params
      .add("temperature", options_.temperature,
           "sharpening temperature of guessed labels: they are raised to the power of its inverse")
      .above(0)
      .source("paper");
  params
      .add("alpha", options_.alpha, "alpha of the Beta(alpha, alpha) distribution of mixup weights")
      .above(0)
      .source("paper");
  params.add("threshold", options_.threshold, "probability above which a sample counts as clean")
      .range(0, 1)
      .source("paper");
  params.add("epochs", options_.epochs, "local epochs after the warm-up; 0: train.epochs")
      .at_least(0)
      .source("FedCorr's comparison uses 20");
  params
      .add("score_view", options_.score_view,
           {{"augmented", ScoreView::augmented}, {"clean", ScoreView::clean}},
           "images on which samples are divided into clean and noisy: augmented as in training, or "
           "unchanged (clean)")
      .source("paper; FedRN's comparison: augmented");
  params
      .add("score_batch", options_.score_batch,
           "batch size in which samples are scored to divide them into clean and noisy; 0: "
           "train.eval_batch")
      .at_least(0)
      .source("here; FedRN's comparison: 50");
}

void DivideMix::check(const Setting& setting) const {
  check_warmup(options_.warmup, setting);
}

std::unique_ptr<ClientSide> DivideMix::client_side() const {
  return std::make_unique<DivideMixClient>(options_);
}

void DivideMix::play(std::int64_t round, Server& server) {
  TwinMethod::play(round, server);
  server.notes["phase"] = round < options_.warmup ? "warm-up" : "mix";
}

MethodInfo dividemix_info() {
  return {.name = "dividemix",
          .group = "local trainer",
          .summary = "two models split clean from noisy samples for each other",
          .make = [] { return std::make_unique<DivideMix>(); },
          .smoke = Json::object({{"rounds", 4}, {"method.warmup", 2}, {"method.ramp", 1}})};
}

}  // namespace winnow

#include "winnow/method/trainer/joint_optimisation/joint_optimisation.h"

#include <ATen/ATen.h>

#include "winnow/federation/aggregation.h"
#include "winnow/method/local_training.h"
#include "winnow/method/sample_history.h"
#include "winnow/train/soft_loss.h"

namespace winnow {
namespace {

constexpr const char* kSoft = "joint.soft";

// Remembers tensors["joint.ring"], the last predictions of every sample, values["joint.recorded"],
// how many there have been, and tensors["joint.soft"], its soft labels, of which the likeliest
// classes are the labels in use. A model that diverged changes nothing of that.
class JointClient final : public ClientSide {
 public:
  explicit JointClient(const joint_optimisation::Options& options) : options_(options) {}

  Message handle(const Message& task, ClientContext& context) const override {
    const std::int64_t round = round_of(task);
    const auto& start = task.get<State>("model");
    context.options().mixup = 0.0;  // what is predicted of a mixture is no sample's label
    return train_done(context.size() == 0 ? start.clone() : train(start, round, context), context);
  }

  void check_memory(ClientContext& context) const override {
    const std::int64_t classes = context.classes();
    check_history(form(classes), context);
    context.archive().tensor(kSoft, at::kFloat, {context.size(), classes});
  }

 private:
  HistoryForm form(std::int64_t classes) const {
    return {
        .method = "joint", .ring = "joint.ring", .length = options_.history, .shape = {classes}};
  }

  State train(const State& start, std::int64_t round, ClientContext& context) const {
    const bool warm = round < options_.warmup;
    TrainOptions& train = context.options();
    if (!warm && options_.epochs > 0) {
      train.epochs = options_.epochs;
    }
    Trainer& trainer = context.trainer();
    const TrainKey key = context.key(round);
    const Plan plan = make_plan(context.local_set(), train, context.augment(), key);
    SampleHistory history(form(context.classes()), context);
    joint_optimisation::Buffers buffers;
    buffers.ring = history.ring();
    // Soft labels start as the given ones.
    buffers.soft =
        fill(trainer, kSoft,
             context.recall(kSoft, one_hot_rows(context.labels_tensor(), context.classes())));
    trainer.begin({start}, key);
    for (std::int64_t epoch = 0; epoch < train.epochs; ++epoch) {
      const Plan part = plan.epoch(epoch, train.epochs);
      history.begin_epoch(part, trainer);
      buffers.place = history.place();
      buffers.slot = history.slot();
      trainer.take_steps(part, joint_optimisation::Objective(buffers, options_, train, warm),
                         stepping(train, round));
      if (!warm) {
        buffers.soft.narrow(0, 0, context.size())
            .copy_(joint_optimisation::soft_labels(buffers.ring.narrow(0, 0, context.size()),
                                                   history.filled(), options_.hard_labels));
      }
    }
    State trained = trainer.finished_model();
    if (all_finite(trained)) {
      history.remember(context);
      if (!warm) {
        remember_labels(buffers.soft, context);
      }
    }
    return trained;
  }

  static void remember_labels(const at::Tensor& buffer, ClientContext& context) {
    const at::Tensor soft = first_rows(buffer, context.size());
    context.remember(kSoft, soft);
    const at::Tensor labels = soft.argmax(1);
    const auto* first = labels.data_ptr<std::int64_t>();
    context.trace().labels.emplace(first, first + labels.numel());
  }

  joint_optimisation::Options options_;
};

}  // namespace

void JointOptimisation::declare(Params& params) {
  params
      .add("alpha", options_.alpha,
           "weight of the term that keeps the mean prediction of a batch near uniform")
      .at_least(0)
      .source("paper, FedCorr, FedRN");
  params.add("beta", options_.beta, "weight of the entropy of the predictions")
      .at_least(0)
      .source("paper, FedCorr, FedRN");
  params
      .add("history", options_.history,
           "number of a sample's last predictions whose mean is its soft label")
      .at_least(1)
      .source("FedRN's comparison");
  params.add("warmup", options_.warmup, "rounds at the start that train on the given labels")
      .at_least(0)
      .source("FedRN's comparison; FedCorr uses 20");
  params
      .add("hard_labels", options_.hard_labels,
           "train on the most probable class instead of the soft label")
      .source("paper: its other variant");
  params.add("epochs", options_.epochs, "local epochs after the warm-up; 0: train.epochs")
      .at_least(0)
      .source("FedCorr's comparison uses 20");
}

void JointOptimisation::check(const Setting& setting) const {
  check_warmup(options_.warmup, setting);
}

std::unique_ptr<ClientSide> JointOptimisation::client_side() const {
  return std::make_unique<JointClient>(options_);
}

MethodInfo joint_optimisation_info() {
  return {.name = "joint_optimisation",
          .group = "local trainer",
          .summary = "labels become the mean of recent predictions",
          .make = [] { return std::make_unique<JointOptimisation>(); },
          .smoke = Json::object({{"rounds", 4}, {"method.warmup", 2}, {"method.history", 2}})};
}

}  // namespace winnow

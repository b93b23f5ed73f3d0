#include "winnow/method/trainer/selfie/selfie.h"

#include <ATen/ATen.h>

#include "winnow/federation/aggregation.h"
#include "winnow/method/local_training.h"
#include "winnow/method/sample_history.h"
#include "winnow/method/trainer/selfie/objective.h"

namespace winnow {
namespace {

constexpr const char* kRefurbished = "selfie.refurbished";

// Remembers tensors["selfie.history"], the last predictions of every sample,
// values["selfie.recorded"], how many there have been, tensors["selfie.refurbished"], the label
// that replaces the given one or -1, and after the warm-up which samples were last trained on. A
// model that diverged changes nothing of that.
class SelfieClient final : public ClientSide {
 public:
  explicit SelfieClient(const selfie::Options& options) : options_(options) {}

  Message handle(const Message& task, ClientContext& context) const override {
    const std::int64_t round = round_of(task);
    const auto& start = task.get<State>("model");
    context.options().mixup = 0.0;  // what is predicted of a mixture is no sample's history
    return train_done(context.size() == 0 ? start.clone() : train(start, round, context), context);
  }

  void check_memory(ClientContext& context) const override {
    const HistoryForm history = form();
    const std::int64_t last = context.classes() - 1;
    require_range(check_history(history, context), history.ring, 0, last);
    require_range(context.archive().tensor(kRefurbished, at::kLong, {context.size()}), kRefurbished,
                  -1, last);
  }

 private:
  HistoryForm form() const {
    return {.method = "selfie",
            .ring = "selfie.history",
            .length = options_.history,
            .shape = {},
            .type = at::kLong};
  }

  State train(const State& start, std::int64_t round, ClientContext& context) const {
    const bool warm = round < options_.warmup;
    const TrainOptions& train = context.options();
    Trainer& trainer = context.trainer();
    const TrainKey key = context.key(round);
    const Plan plan = make_plan(context.local_set(), train, context.augment(), key);
    SampleHistory history(form(), context);
    selfie::Buffers buffers;
    buffers.history = history.ring();
    buffers.refurbished =
        fill(trainer, kRefurbished,
             context.recall(kRefurbished, at::full({context.size()}, -1, at::kLong)));
    buffers.used = fill(trainer, "selfie.used", at::zeros({context.size()}, at::kByte));
    trainer.begin({start}, key);
    for (std::int64_t epoch = 0; epoch < train.epochs; ++epoch) {
      const Plan part = plan.epoch(epoch, train.epochs);
      history.begin_epoch(part, trainer);
      buffers.place = history.place();
      buffers.slot = history.slot();
      buffers.full = fill(trainer, "selfie.full", at::full({1}, history.full() ? 1 : 0, at::kByte));
      buffers.clean = fill(trainer, "selfie.clean", clean_counts(part));
      trainer.take_steps(part, selfie::Objective(buffers, options_.threshold, train, warm),
                         stepping(train, round));
    }
    State trained = trainer.finished_model();
    if (all_finite(trained)) {
      history.remember(context);
      if (!warm) {
        remember_labels(buffers, context);
      }
    }
    return trained;
  }

  at::Tensor clean_counts(const Plan& plan) const {
    std::vector<std::int64_t> counts;
    counts.reserve(plan.batches.size());
    for (const Plan::Batch& batch : plan.batches) {
      counts.push_back(selfie::clean_count(batch.size, options_.noise_rate));
    }
    return at::tensor(counts, at::kLong);
  }

  static void remember_labels(const selfie::Buffers& buffers, ClientContext& context) {
    context.remember(kRefurbished, first_rows(buffers.refurbished, context.size()));
    const at::Tensor used = first_rows(buffers.used, context.size());
    const auto* first = used.data_ptr<std::uint8_t>();
    context.trace().selected.emplace(first, first + used.numel());
  }

  selfie::Options options_;
};

}  // namespace

void Selfie::declare(Params& params) {
  params
      .add("noise_rate", options_.noise_rate,
           "share of every batch that is not considered clean after the warm-up")
      .range(0, 1)
      .source("FedRN's comparison; about the share of wrong labels");
  params
      .add("threshold", options_.threshold,
           "uncertainty of a sample's predictions up to which it is relabelled")
      .range(0, 1)
      .source("paper, FedRN's comparison");
  params
      .add("history", options_.history,
           "number of a sample's last predictions from which its uncertainty is computed")
      .at_least(1)
      .source("FedRN's comparison");
  params.add("warmup", options_.warmup, "rounds of plain FedAvg at the start")
      .at_least(0)
      .source("FedRN's comparison");
}

void Selfie::check(const Setting& setting) const {
  check_warmup(options_.warmup, setting);
}

std::unique_ptr<ClientSide> Selfie::client_side() const {
  return std::make_unique<SelfieClient>(options_);
}

MethodInfo selfie_info() {
  return {.name = "selfie",
          .group = "local trainer",
          .summary = "small-loss samples, and relabelling of consistent ones",
          .make = [] { return std::make_unique<Selfie>(); },
          .smoke = Json::object({{"rounds", 4}, {"method.warmup", 2}, {"method.history", 2}})};
}

}  // namespace winnow

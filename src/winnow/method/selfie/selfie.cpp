#include "winnow/method/selfie/selfie.h"

#include <ATen/ATen.h>

#include "winnow/federation/aggregation.h"
#include "winnow/method/local_training.h"
#include "winnow/method/selfie/selfie_loss.h"

namespace winnow {
namespace {

constexpr const char* kHistory = "selfie.history";
constexpr const char* kRefurbished = "selfie.refurbished";
constexpr const char* kRecorded = "selfie.recorded";

// Remembers tensors["selfie.history"], the last predictions of every sample,
// values["selfie.recorded"], how many there have been, tensors["selfie.refurbished"], the label
// that replaces the given one or -1, and after the warm-up which samples were last trained on. A
// model that diverged changes nothing of that.
class SelfieClient final : public ClientSide {
 public:
  explicit SelfieClient(const SelfieOptions& options) : options_(options) {}

  Message handle(const Message& task, ClientContext& context) const override {
    const std::int64_t round = round_of(task);
    const auto& start = task.get<State>("model");
    context.options().mixup = 0.0;  // what is predicted of a mixture is no sample's history
    return train_done(context.size() == 0 ? start.clone() : train(start, round, context), context);
  }

  void check_memory(ClientContext& context) const override {
    const Archive& archive = context.memory().archive;
    const std::int64_t last = context.lane().classes() - 1;
    require_range(archive.tensor(kHistory, at::kLong, {context.size(), options_.history}), kHistory,
                  0, last);
    require_range(archive.tensor(kRefurbished, at::kLong, {context.size()}), kRefurbished, -1,
                  last);
    if (const auto recorded = archive.find(kRecorded)) {
      recorded->count();
    }
  }

 private:
  State train(const State& start, std::int64_t round, ClientContext& context) const {
    const bool warm = round < options_.warmup;
    const TrainOptions& train = context.options();
    Lane& lane = context.lane();
    const TrainKey key = train_key(context, round);
    const Plan plan = make_plan(context.local_set(), train, lane.augment(), key);
    auto recorded = context.memory().archive.values.value(kRecorded, std::int64_t{0});
    SelfieBuffers buffers = recall_buffers(context);
    lane.begin({start}, key);
    for (std::int64_t epoch = 0; epoch < train.epochs; ++epoch) {
      const Plan part = plan.epoch(epoch, train.epochs);
      buffers.place = fill(lane, "selfie.place", part.place);
      buffers.slot =
          fill(lane, "selfie.slot", at::full({1}, recorded % options_.history, at::kLong));
      ++recorded;
      buffers.full =
          fill(lane, "selfie.full", at::full({1}, recorded >= options_.history ? 1 : 0, at::kByte));
      buffers.clean = fill(lane, "selfie.clean", clean_counts(part));
      take_steps(part, SelfieObjective(buffers, options_.threshold, train, warm),
                 stepping(train, round), context);
    }
    State trained = finished_model(lane);
    if (all_finite(trained)) {
      remember(buffers, recorded, warm, context);
    }
    return trained;
  }

  at::Tensor clean_counts(const Plan& plan) const {
    std::vector<std::int64_t> counts;
    counts.reserve(plan.batches.size());
    for (const Plan::Batch& batch : plan.batches) {
      counts.push_back(clean_count(batch.size, options_.noise_rate));
    }
    return at::tensor(counts, at::kLong);
  }

  SelfieBuffers recall_buffers(ClientContext& context) const {
    Lane& lane = context.lane();
    const ClientMemory& memory = context.memory();
    SelfieBuffers buffers;
    buffers.history =
        fill(lane, kHistory,
             recall(memory, kHistory, at::zeros({context.size(), options_.history}, at::kLong)));
    buffers.refurbished =
        fill(lane, kRefurbished,
             recall(memory, kRefurbished, at::full({context.size()}, -1, at::kLong)));
    buffers.used = fill(lane, "selfie.used", at::zeros({context.size()}, at::kByte));
    return buffers;
  }

  static void remember(const SelfieBuffers& buffers, std::int64_t recorded, bool warm,
                       ClientContext& context) {
    ClientMemory& memory = context.memory();
    memory.archive.tensors[kHistory] = first_rows(buffers.history, context.size());
    memory.archive.values[kRecorded] = recorded;
    if (!warm) {
      memory.archive.tensors[kRefurbished] = first_rows(buffers.refurbished, context.size());
      const at::Tensor used = first_rows(buffers.used, context.size());
      const auto* first = used.data_ptr<std::uint8_t>();
      memory.selected.emplace(first, first + used.numel());
    }
  }

  SelfieOptions options_;
};

}  // namespace

void Selfie::declare(Params& params) {
  params
      .add("noise_rate", options_.noise_rate,
           "share of every batch that is not considered clean, after the warm-up")
      .range(0, 1)
      .source("FedRN's comparison; about the share of wrong labels");
  params
      .add("threshold", options_.threshold,
           "a sample is refurbished when its predictions are at most this uncertain")
      .range(0, 1)
      .source("paper, FedRN's comparison");
  params.add("history", options_.history, "latest predictions of a sample that are looked at")
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
  return {"selfie", "local trainer",
          "clients train on small losses and relabel samples whose prediction never changes",
          [] { return std::make_unique<Selfie>(); }};
}

}  // namespace winnow

#include "winnow/method/joint_optimisation/joint_optimisation.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "winnow/federation/aggregation.h"
#include "winnow/method/local_training.h"
#include "winnow/train/soft_loss.h"

namespace winnow {
namespace {

constexpr const char* kRing = "joint.ring";
constexpr const char* kSoft = "joint.soft";
constexpr const char* kRecorded = "joint.recorded";

// Remembers tensors["joint.ring"], the last predictions of every sample, values["joint.recorded"],
// how many there have been, and tensors["joint.soft"], its soft labels, of which the likeliest
// classes are the labels in use. A model that diverged changes nothing of that.
class JointClient final : public ClientSide {
 public:
  explicit JointClient(const JointOptions& options) : options_(options) {}

  Message handle(const Message& task, ClientContext& context) const override {
    const std::int64_t round = round_of(task);
    const auto& start = task.get<State>("model");
    context.options().mixup = 0.0;  // what is predicted of a mixture is no sample's label
    return train_done(context.size() == 0 ? start.clone() : train(start, round, context), context);
  }

  void check_memory(ClientContext& context) const override {
    const Archive& archive = context.memory().archive;
    const std::int64_t classes = context.lane().classes();
    archive.tensor(kRing, at::kFloat, {context.size(), options_.history, classes});
    archive.tensor(kSoft, at::kFloat, {context.size(), classes});
    if (const auto recorded = archive.find(kRecorded)) {
      recorded->count();
    }
  }

 private:
  State train(const State& start, std::int64_t round, ClientContext& context) const {
    const bool warm = round < options_.warmup;
    TrainOptions& train = context.options();
    if (!warm && options_.epochs > 0) {
      train.epochs = options_.epochs;
    }
    Lane& lane = context.lane();
    ClientMemory& memory = context.memory();
    const TrainKey key = train_key(context, round);
    const Plan plan = make_plan(context.local_set(), train, lane.augment(), key);
    auto recorded = memory.archive.values.value(kRecorded, std::int64_t{0});
    JointBuffers buffers = recall_buffers(context);
    lane.begin({start}, key);
    for (std::int64_t epoch = 0; epoch < train.epochs; ++epoch) {
      const Plan part = plan.epoch(epoch, train.epochs);
      buffers.place = fill(lane, "joint.place", part.place);
      buffers.slot =
          fill(lane, "joint.slot", at::full({1}, recorded % options_.history, at::kLong));
      take_steps(part, JointObjective(buffers, options_, train, warm), stepping(train, round),
                 context);
      ++recorded;
      if (!warm) {
        buffers.soft.narrow(0, 0, context.size())
            .copy_(soft_labels(buffers.ring.narrow(0, 0, context.size()),
                               std::min(recorded, options_.history), options_.hard_labels));
      }
    }
    State trained = finished_model(lane);
    if (all_finite(trained)) {
      remember(buffers, recorded, warm, context);
    }
    return trained;
  }

  // What was predicted before, and soft labels that start as the given ones.
  JointBuffers recall_buffers(ClientContext& context) const {
    Lane& lane = context.lane();
    const ClientMemory& memory = context.memory();
    const std::int64_t classes = lane.classes();
    JointBuffers buffers;
    buffers.ring = fill(
        lane, kRing,
        recall(memory, kRing, at::zeros({context.size(), options_.history, classes}, at::kFloat)));
    buffers.soft =
        fill(lane, kSoft, recall(memory, kSoft, one_hot_rows(context.labels_tensor(), classes)));
    return buffers;
  }

  static void remember(const JointBuffers& buffers, std::int64_t recorded, bool warm,
                       ClientContext& context) {
    ClientMemory& memory = context.memory();
    memory.archive.tensors[kRing] = first_rows(buffers.ring, context.size());
    memory.archive.values[kRecorded] = recorded;
    if (!warm) {
      const at::Tensor soft = first_rows(buffers.soft, context.size());
      memory.archive.tensors[kSoft] = soft;
      const at::Tensor labels = soft.argmax(1);
      const auto* first = labels.data_ptr<std::int64_t>();
      memory.labels.emplace(first, first + labels.numel());
    }
  }

  JointOptions options_;
};

}  // namespace

void JointOptimisation::declare(Params& params) {
  params
      .add("alpha", options_.alpha,
           "weight of the term that keeps the mean prediction of a batch near uniform")
      .at_least(0)
      .source("paper, FedCorr, FedRN");
  params.add("beta", options_.beta, "weight of the entropy of predictions")
      .at_least(0)
      .source("paper, FedCorr, FedRN");
  params.add("history", options_.history, "predictions that a soft label is the mean of")
      .at_least(1)
      .source("FedRN's comparison");
  params.add("warmup", options_.warmup, "rounds with the given labels at the start")
      .at_least(0)
      .source("FedRN's comparison; FedCorr uses 20");
  params
      .add("hard_labels", options_.hard_labels,
           "train on the likeliest class instead of the soft label")
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
  return {"joint_optimisation", "local trainer",
          "clients replace their labels with the mean of the last predictions",
          [] { return std::make_unique<JointOptimisation>(); }};
}

}  // namespace winnow

#include "winnow/method/base/moon/moon.h"

#include <ATen/ATen.h>

#include <utility>

#include "winnow/method/base/moon/objective.h"
#include "winnow/method/local_training.h"

namespace winnow {
namespace {

constexpr const char* kPrevious = "moon.previous";

class MoonClient final : public ClientSide {
 public:
  MoonClient(double mu, double tau) : mu_(mu), tau_(tau) {}

  Message handle(const Message& task, ClientContext& context) const override {
    const std::int64_t round = round_of(task);
    const State& received = task.get<State>("model");
    const bool plain = mu_ == 0.0 || context.size() == 0;
    State trained =
        plain ? context.train(received, round, {}).state : train(received, round, context);
    return train_done(std::move(trained), context);
  }

  void check_memory(ClientContext& context) const override {
    context.archive().tensor(kPrevious, at::kFloat, {context.layout()->total()});
  }

 private:
  State train(const State& received, std::int64_t round, ClientContext& context) const {
    const State previous{received.layout,
                         context.recall(kPrevious, received.flat).to(received.flat.device())};
    const TrainOptions& options = context.options();
    const TrainKey key = context.key(round);
    Trainer& trainer = context.trainer();
    const Plan plan = make_plan(context.local_set(), options, context.augment(), key);
    trainer.begin({received, received, previous}, key);
    trainer.take_steps(plan, moon::Objective(options, mu_, tau_), stepping(options, round));
    State trained = trainer.model();
    // A model that diverged would spoil every later participation. On the host, so that any number
    // of clients fits beside a GPU.
    if (all_finite(trained)) {
      context.remember(kPrevious, trained.flat.cpu());
    }
    return trained;
  }

  double mu_;
  double tau_;
};

}  // namespace

void Moon::declare(Params& params) {
  params.add("mu", mu_, "weight of the contrastive loss; 0: FedAvg")
      .at_least(0)
      .source("spec: baselines 8; the paper tunes over 0.1, 1, 5, 10");
  params.add("tau", tau_, "temperature of the similarities in the contrastive loss")
      .above(0)
      .source("paper");
}

std::unique_ptr<ClientSide> Moon::client_side() const {
  return std::make_unique<MoonClient>(mu_, tau_);
}

MethodInfo moon_info() {
  return {"moon", "base", "FedAvg with a contrastive loss between models",
          [] { return std::make_unique<Moon>(); }};
}

}  // namespace winnow

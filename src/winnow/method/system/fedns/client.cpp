#include "winnow/method/system/fedns/client.h"

#include <ATen/ATen.h>

#include <utility>

namespace winnow::fedns {
namespace {

// The loaded model after the pass; as in any pass in training mode, every batch was counted.
State moved_model(const Trainer& trainer, std::size_t batches) {
  State state = trainer.model();
  state.counters().add_(static_cast<double>(batches));
  return state;
}

}  // namespace

Client::Client(std::unique_ptr<ClientSide> base, ScoreRule rule, bool send_norms)
    : base_(std::move(base)), rule_(std::move(rule)), send_norms_(send_norms) {}

Message Client::handle(const Message& task, ClientContext& context) const {
  const bool scores = task.kind() == "train_score";
  if (!scores && task.kind() != "train_measure") {
    return context.as_base([&](ClientContext& base) { return base_->handle(task, base); });
  }
  const Message trained = context.as_base(
      [&](ClientContext& base) { return base_->handle(task.renamed("train"), base); });
  Scorer& scorer = context.scorer();
  scorer.load(trained.get<State>("model"));
  const std::vector<double> norms =
      gradient_norms(scorer, context.local_set().samples, context.labels_tensor(), rule_);
  Message reply(task.kind() + "_done");
  for (const auto& [name, value] : trained.fields()) {
    if (name == "model" && scores && rule_.moves_statistics()) {
      reply.set(name, moved_model(context.trainer(), norms.size()));
    } else {
      reply.set(name, value);
    }
  }
  reply.set("score", statistic_of(norms, rule_.statistic));
  if (send_norms_) {
    reply.set("norms", norms);
  }
  return reply;
}

}  // namespace winnow::fedns

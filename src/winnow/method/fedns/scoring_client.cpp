#include "winnow/method/fedns/scoring_client.h"

#include <ATen/ATen.h>

#include <utility>

namespace winnow {
namespace {

// The loaded model after the pass; as in any pass in training mode, every batch was counted.
State moved_model(const Lane& lane, std::size_t batches) {
  State state = lane.model();
  state.counters().add_(static_cast<double>(batches));
  return state;
}

}  // namespace

ScoringClient::ScoringClient(std::unique_ptr<ClientSide> base, ScoreRule rule, bool send_norms)
    : base_(std::move(base)), rule_(std::move(rule)), send_norms_(send_norms) {}

Message ScoringClient::handle(const Message& task, ClientContext& context) const {
  if (task.kind() != "train_score") {
    return base_->handle(task, context);
  }
  const Message trained = base_->handle(task.renamed("train"), context);
  Lane& lane = context.lane();
  lane.load(trained.get<State>("model"));
  const std::vector<double> norms =
      gradient_norms(lane, context.local_set().samples, context.labels_tensor(), rule_);
  Message reply("train_score_done");
  for (const auto& [name, value] : trained.fields()) {
    if (name == "model" && rule_.moves_statistics()) {
      reply.set(name, moved_model(lane, norms.size()));
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

}  // namespace winnow

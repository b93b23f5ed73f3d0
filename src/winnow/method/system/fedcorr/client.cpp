#include "winnow/method/system/fedcorr/client.h"

#include <ATen/ATen.h>

#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "winnow/stats/lid.h"

namespace winnow::fedcorr {
namespace {

constexpr std::int64_t kScoreBatch = 100;  // spec: label-noise A.3

double estimate_in(const Archive& archive) {
  return archive.values.value("muhat", 0.0);
}

void remember_estimate(Archive& archive, double estimate) {
  archive.values.erase("muhat");
  if (estimate > 0.0) {
    archive.values["muhat"] = estimate;
  }
}

std::vector<double> doubles_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kCPU, at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

std::vector<double> stored_losses(const ClientContext& context) {
  const at::Tensor losses = context.recall("losses");
  return losses.defined() ? doubles_of(losses) : std::vector<double>();
}

Prediction prediction_of(const at::Tensor& logits) {
  const auto [confidence, label] = logits.softmax(1).max(1);
  const at::Tensor sure = confidence.cpu().contiguous();
  const at::Tensor said = label.cpu().contiguous();
  return {{sure.data_ptr<float>(), sure.data_ptr<float>() + sure.numel()},
          {said.data_ptr<std::int64_t>(), said.data_ptr<std::int64_t>() + said.numel()}};
}

// Relabels the samples at `places` in the client's memory; returns how many labels changed.
std::int64_t relabel_in_memory(ClientContext& context, std::span<const std::int64_t> places,
                               const Prediction& prediction, const Options& options) {
  const LocalSet set = context.local_set();
  std::vector<std::int64_t> labels(set.labels.begin(), set.labels.end());
  const std::int64_t changed = relabel(labels, places, prediction, options);
  if (changed > 0) {
    context.trace().labels = std::move(labels);
  }
  return changed;
}

}  // namespace

Client::Client(Options options, std::unique_ptr<ClientSide> base)
    : options_(options), base_(std::move(base)) {}

Message Client::handle(const Message& task, ClientContext& context) const {
  const std::string& kind = task.kind();
  const bool mixed = kind == "train1" || !options_.mixup_stage1_only;
  context.options().mixup = mixed ? options_.mixup : 0.0;
  if (kind == "train1") {
    return train_stage1(task, context);
  }
  if (kind == "correct1") {
    return correct(task, context);
  }
  if (kind == "set_clean") {
    remember_estimate(context.archive(), 0.0);
    context.trace().suspected.reset();
    context.forget("losses");
    return Message("set_clean_done");
  }
  if (kind == "finetune") {
    return finetune(task, context);
  }
  if (kind == "correct_all") {
    return correct_all(task, context);
  }
  if (task.has(kUsualRound)) {
    TrainOptions& train = context.options();
    train.lr = options_.usual_lr;
    train.lr_schedule = "exponential";
    train.lr_decay = options_.usual_lr_decay;
    train.lr = lr_in(train, task.get<std::uint32_t>(kUsualRound));
    train.lr_decay = 1.0;
  }
  return context.as_base([&](ClientContext& base) { return base_->handle(task, base); });
}

void Client::check_memory(ClientContext& context) const {
  const Archive& archive = context.archive();
  archive.tensor("losses", at::kFloat, {context.size()});
  if (const auto estimate = archive.find("muhat")) {
    estimate->number(0.0, 1.0);
  }
  context.as_base([&](ClientContext& base) { base_->check_memory(base); });
}

Message Client::train_stage1(const Message& task, ClientContext& context) const {
  const LocalRule rule = stage1_rule(options_, estimate_in(context.archive()));
  TrainOutcome outcome = context.train(task.get<State>("model"), round_of(task), rule);
  // A single sample has no neighbours: the server knows and leaves the client out (A.4 #16).
  const double lid = context.size() < 2 ? 0.0 : score(outcome.state, round_of(task), context);
  return Message("train1_done")
      .set("model", std::move(outcome.state))
      .set("samples", static_cast<std::uint32_t>(context.size()))
      .set("lid", lid);
}

double Client::score(const State& model, std::int64_t round, ClientContext& context) const {
  const at::Tensor outputs = logits(model, "fedcorr score", round, context);
  const at::Tensor predictions = outputs.softmax(1).contiguous();
  const at::Tensor losses = sample_losses(outputs, context.labels_tensor(), options_).cpu();
  context.forget("losses");
  if (!predictions.isfinite().all().item<bool>() || !losses.isfinite().all().item<bool>()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  context.remember("losses", losses);
  if (predictions.is_cuda()) {
    return mean_lid(predictions, options_.lid_neighbours);
  }
  return mean_lid({predictions.data_ptr<float>(), static_cast<std::size_t>(predictions.numel())},
                  static_cast<std::size_t>(predictions.size(1)),
                  static_cast<std::size_t>(options_.lid_neighbours));
}

Message Client::correct(const Message& task, ClientContext& context) const {
  // Without losses of this iteration (its model was not finite) the estimate stays as it was.
  const std::vector<double> losses = stored_losses(context);
  const std::vector<bool> split = suspects(losses);
  const double estimate = losses.empty() ? estimate_in(context.archive()) : estimate_noise(split);
  const std::int64_t count = relabel_count(std::ssize(losses), estimate, options_.relabel_ratio);
  std::int64_t changed = 0;
  if (options_.correction && count > 0) {
    const at::Tensor outputs =
        logits(task.get<State>("model"), "fedcorr relabel", round_of(task), context);
    changed = relabel_in_memory(
        context, relabel_places(ranks(losses, outputs, context), split, count, options_),
        prediction_of(outputs), options_);
  }
  remember_estimate(context.archive(), estimate);
  context.trace().suspected.reset();
  if (!split.empty()) {
    context.trace().suspected = split;
  }
  context.forget("losses");
  return Message("correct1_done")
      .set("muhat", estimate)
      .set("relabelled", static_cast<std::uint32_t>(changed));
}

Message Client::correct_all(const Message& task, ClientContext& context) const {
  std::vector<std::int64_t> places(static_cast<std::size_t>(context.size()));
  std::iota(places.begin(), places.end(), std::int64_t{0});
  Options last = options_;
  last.theta = options_.final_theta < 0.0 ? options_.theta : options_.final_theta;
  // Asked once in a run, so the view needs no round.
  const at::Tensor outputs = logits(task.get<State>("model"), "fedcorr relabel all", 0, context);
  const std::int64_t changed = relabel_in_memory(context, places, prediction_of(outputs), last);
  return Message("correct_all_done").set("relabelled", static_cast<std::uint32_t>(changed));
}

Message Client::finetune(const Message& task, ClientContext& context) const {
  TrainOutcome outcome = context.train(task.get<State>("model"), round_of(task), {});
  return Message("finetune_done")
      .set("model", std::move(outcome.state))
      .set("samples", static_cast<std::uint32_t>(context.size()));
}

at::Tensor Client::logits(const State& model, std::string_view view, std::int64_t round,
                          ClientContext& context) const {
  return context.logits(model, kScoreBatch, context.view(options_.score_view, view, round));
}

std::vector<double> Client::ranks(const std::vector<double>& losses, const at::Tensor& outputs,
                                  const ClientContext& context) const {
  if (options_.rank == Rank::local) {
    return losses;
  }
  const at::Tensor own = sample_losses(outputs, context.labels_tensor(), options_);
  return own.isfinite().all().item<bool>() ? doubles_of(own) : losses;
}

}  // namespace winnow::fedcorr

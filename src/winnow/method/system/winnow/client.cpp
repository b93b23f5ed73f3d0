#include "winnow/method/system/winnow/client.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/method/local_training.h"

namespace winnow::winnowing {
namespace {

constexpr const char* kSeen = "seen";
constexpr const char* kThresholds = "thresholds";
constexpr double kAgainst = 0.5;  // the share of a sample below which its label counts as suspected

std::span<const float> values_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

// What the client remembers since it was sent `before`.
at::Tensor known(const char* name, const char* before, const Message& task,
                 const ClientContext& context) {
  at::Tensor known = context.recall(name);
  if (!known.defined()) {
    throw Error(ErrorKind::peer, fmt::format("client {} was sent '{}' without '{}' before it",
                                             context.id(), task.kind(), before));
  }
  return known;
}

// A list of the task that has as many values as there are classes, or pairs of them.
const std::vector<double>& numbers_of(const Message& task, const std::string& name,
                                      std::int64_t expected) {
  const auto& numbers = task.get<std::vector<double>>(name);
  if (std::ssize(numbers) != expected) {
    throw Error(ErrorKind::peer, fmt::format("message '{}' holds {} values of '{}', expected {}",
                                             task.kind(), numbers.size(), name, expected));
  }
  return numbers;
}

}  // namespace

// spec: winnow 4
at::Tensor WeighedCrossEntropy::loss(const Batch& batch, const Models& models) const {
  const at::Tensor p = (models.logits(0, batch.images) / temperature_).log_softmax(1);
  const at::Tensor given = p.gather(1, batch.labels.unsqueeze(1)).squeeze(1);
  const at::Tensor likelihood = given * (1.0 - label_smoothing_) + p.mean(1) * label_smoothing_;
  return -(likelihood * weights_.index_select(0, batch.entries)).mean();
}

std::string WeighedCrossEntropy::signature() const {
  return fmt::format("winnow weighed {} {}", label_smoothing_, temperature_);
}

Client::Client(Options options, std::unique_ptr<ClientSide> base)
    : options_(options), base_(std::move(base)) {}

Message Client::handle(const Message& task, ClientContext& context) const {
  if (task.kind() == "look") {
    return look(task, context);
  }
  if (task.kind() == "count") {
    return count(task, context);
  }
  if (task.kind() == "train_doubted") {
    return train_doubted(task, context);
  }
  context.trace().suspected.reset();  // everything is trained on alike
  return context.as_base([&](ClientContext& base) { return base_->handle(task, base); });
}

void Client::check_memory(ClientContext& context) const {
  const at::Tensor seen =
      context.archive().tensor(kSeen, at::kFloat, {context.size(), context.classes()});
  if (seen.defined() && seen.numel() > 0 &&
      (seen.min().item<float>() < 0.0F || seen.max().item<float>() > 1.0F)) {
    throw Error(ErrorKind::run, "seen: expected probabilities");
  }
  context.archive().tensor(kThresholds, at::kDouble, {context.classes()});
  context.as_base([&](ClientContext& base) { base_->check_memory(base); });
}

at::Tensor Client::seen_now(const at::Tensor& before, const State& model,
                            ClientContext& context) const {
  const at::Tensor now = context.logits(model, context.options().eval_batch)
                             .to(at::kFloat)
                             .softmax(1)
                             .cpu()
                             .contiguous();
  return before.defined()
             ? (before * options_.memory + now * (1.0 - options_.memory)).clamp(0.0, 1.0)
             : now;
}

// spec: winnow 2.1
Message Client::look(const Message& task, ClientContext& context) const {
  const LocalSet set = context.local_set();
  const auto classes = static_cast<std::size_t>(context.classes());
  const at::Tensor seen = seen_now(context.recall(kSeen), task.get<State>("model"), context);
  // With other values the server asks no further, and what was seen before stays.
  if (seen.isfinite().all().item<bool>()) {
    context.remember(kSeen, seen);
  }
  ClassMeans own{std::vector<double>(classes, 0.0), std::vector<double>(classes, 0.0)};
  const std::span<const float> values = values_of(seen);
  for (std::size_t n = 0; n < set.labels.size(); ++n) {
    const auto label = static_cast<std::size_t>(set.labels[n]);
    own.mean[label] += static_cast<double>(values[n * classes + label]);
    ++own.count[label];
  }
  for (std::size_t c = 0; c < classes; ++c) {
    own.mean[c] = own.count[c] > 0.0 ? own.mean[c] / own.count[c] : 0.0;
  }
  return Message("look_done").set("mean", own.mean).set("count", own.count);
}

// spec: winnow 2.1
Message Client::count(const Message& task, ClientContext& context) {
  const at::Tensor seen = known(kSeen, "look", task, context);
  const std::int64_t classes = seen.size(1);
  const std::vector<double>& bars = numbers_of(task, "thresholds", classes);
  context.remember(kThresholds, at::tensor(bars, at::kDouble));
  const LocalSet set = context.local_set();
  const std::span<const float> values = values_of(seen);
  JointCounts counts(classes);
  for (std::size_t n = 0; n < set.labels.size(); ++n) {
    const auto row = values.subspan(n * bars.size(), bars.size());
    counts.add(set.labels[n], confident_class(row, bars));
  }
  std::vector<double> told;
  for (std::int64_t i = 0; i < classes; ++i) {
    for (std::int64_t j = 0; j < classes; ++j) {
      told.push_back(static_cast<double>(counts.at(i, j)));
    }
  }
  return Message("count_done").set("counts", std::move(told));
}

// spec: winnow 4
Message Client::train_doubted(const Message& task, ClientContext& context) const {
  const at::Tensor seen = known(kSeen, "look", task, context);
  const at::Tensor bars = known(kThresholds, "count", task, context);
  const std::int64_t classes = seen.size(1);
  const std::vector<double>& trust = numbers_of(task, "trust", classes * classes);
  const auto& start = task.get<State>("model");
  const LocalSet set = context.local_set();
  const std::vector<double> share =
      shares(values_of(seen_now(seen, start, context)), set.labels,
             {bars.data_ptr<double>(), static_cast<std::size_t>(classes)}, trust);
  const double total = std::accumulate(share.begin(), share.end(), 0.0);
  State trained =
      total > 0.0 ? train_weighed(share, total, start, round_of(task), context) : start.clone();
  std::vector<bool> suspected(share.size());
  for (std::size_t n = 0; n < share.size(); ++n) {
    suspected[n] = share[n] < kAgainst;
  }
  context.trace().suspected = std::move(suspected);
  return Message("train_doubted_done")
      .set("model", std::move(trained))
      .set("samples", static_cast<std::uint32_t>(std::lround(total)));
}

State Client::train_weighed(const std::vector<double>& share, double total, const State& start,
                            std::int64_t round, ClientContext& context) {
  context.options().mixup = 0.0;  // a mixture has no label of its own to be trusted
  const TrainKey key = context.key(round);
  const Plan plan = make_plan(context.local_set(), context.options(), context.augment(), key);
  const double mean = total / static_cast<double>(share.size());
  const at::Tensor weights = (at::tensor(share, at::kDouble) / mean).to(at::kFloat);
  Trainer& trainer = context.trainer();
  const WeighedCrossEntropy objective(
      fill(trainer, "winnow.weights", weights.index_select(0, plan.place.cpu())),
      context.options());
  trainer.begin({start}, key);
  trainer.take_steps(plan, objective, stepping(context.options(), round));
  return trainer.finished_model();
}

}  // namespace winnow::winnowing

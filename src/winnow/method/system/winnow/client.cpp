#include "winnow/method/system/winnow/client.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/method/clean_set.h"
#include "winnow/method/local_training.h"

namespace winnow::winnowing {
namespace {

constexpr const char* kSeen = "seen";
constexpr double kLeastLikelihood = 1e-8;  // keeps the gradient of the logarithm finite

std::span<const float> values_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

// What models have said of the client's samples so far.
at::Tensor seen_by(const Message& task, const ClientContext& context) {
  at::Tensor seen = context.recall(kSeen);
  if (!seen.defined()) {
    throw Error(ErrorKind::peer, fmt::format("client {} was sent '{}' without 'look' before it",
                                             context.id(), task.kind()));
  }
  return seen;
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

at::Tensor forward_loss(const at::Tensor& logits, const at::Tensor& labels,
                        const at::Tensor& evidence) {
  const at::Tensor likely = evidence.index_select(1, labels).t();
  return -(logits.softmax(1) * likely).sum(1).clamp_min(kLeastLikelihood).log().mean();
}

at::Tensor ForwardLoss::loss(const Batch& batch, const Models& models) const {
  return forward_loss(models.logits(0, batch.images), batch.labels, evidence_);
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
  context.trace().selected.reset();  // everything is trained on, as it was given
  context.trace().last_labels.reset();
  return context.as_base([&](ClientContext& base) { return base_->handle(task, base); });
}

void Client::check_memory(ClientContext& context) const {
  const at::Tensor seen =
      context.archive().tensor(kSeen, at::kFloat, {context.size(), context.classes()});
  if (seen.defined() && seen.numel() > 0 &&
      (seen.min().item<float>() < 0.0F || seen.max().item<float>() > 1.0F)) {
    throw Error(ErrorKind::run, "seen: expected probabilities");
  }
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
  const at::Tensor seen = seen_by(task, context);
  const std::int64_t classes = seen.size(1);
  const std::vector<double>& bars = numbers_of(task, "thresholds", classes);
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
  const at::Tensor seen = seen_by(task, context);
  const std::int64_t classes = seen.size(1);
  const std::vector<double>& evidence = numbers_of(task, "evidence", classes * classes);
  const auto& start = task.get<State>("model");
  std::uint32_t samples = 0;
  State trained;
  if (options_.remedy == Remedy::forward) {
    at::Tensor rows = at::tensor(evidence, at::kDouble).view({classes, classes});
    rows = (rows / rows.max().clamp_min(kLeastLikelihood)).to(at::kFloat);
    const at::Tensor buffer =
        fill(context.trainer(), "winnow.evidence", rows).narrow(0, 0, classes);
    context.options().mixup = 0.0;  // a mixture was given no label of its own
    trained = context.train_by(ForwardLoss(buffer), start, round_of(task));
    samples = static_cast<std::uint32_t>(context.size());
  } else {
    const LocalSet set = context.local_set();
    Sifted sifted =
        sift(values_of(seen_now(seen, start, context)), set.labels, evidence, options_.sure);
    const Subset kept({set.samples, sifted.labels}, sifted.kept);
    trained = context.train(start, kept.set(), round_of(task), {}).state;
    samples = static_cast<std::uint32_t>(kept.set().size());
    context.trace().selected = std::move(sifted.kept);
    context.trace().last_labels = std::move(sifted.labels);
  }
  return Message("train_doubted_done").set("model", std::move(trained)).set("samples", samples);
}

}  // namespace winnow::winnowing

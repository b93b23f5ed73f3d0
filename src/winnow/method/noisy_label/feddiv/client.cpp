#include "winnow/method/noisy_label/feddiv/client.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/method/clean_set.h"
#include "winnow/method/local_training.h"
#include "winnow/stats/min_max.h"
#include "winnow/train/loss.h"
#include "winnow/train/soft_loss.h"

namespace winnow::feddiv {
namespace {

constexpr const char* kLocal = "feddiv.local";
constexpr const char* kPrior = "feddiv.prior";
constexpr const char* kParticipations = "feddiv.participations";

std::span<const double> doubles(const at::Tensor& tensor) {
  return {tensor.data_ptr<double>(), static_cast<std::size_t>(tensor.numel())};
}

at::Tensor logits_under(const State& model, ClientContext& context) {
  return context.logits(model, context.options().eval_batch);
}

// The losses of all local samples scaled to 0..1; none where they say nothing: all nearly equal, or
// not finite.
std::vector<double> normalised_losses(const at::Tensor& outputs, const ClientContext& context) {
  const at::Tensor values =
      losses(outputs, context.labels_tensor()).to(at::kDouble).cpu().contiguous();
  if (values.numel() == 0 || !values.isfinite().all().item<bool>()) {
    return {};
  }
  const std::span<const double> all = doubles(values);
  const auto [low, high] = std::ranges::minmax(all);
  return high - low < 1e-12 ? std::vector<double>() : min_max({all.begin(), all.end()});
}

}  // namespace

at::Tensor Objective::loss(const Batch& batch, const Models& models) const {
  if (eta_ == 0.0) {
    return plain_.loss(batch, models);
  }
  const at::Tensor logits = models.logits(0, batch.images);
  return plain_.loss_of(logits, batch) + uniformity_penalty(logits) * eta_;
}

std::string Objective::signature() const {
  return fmt::format("feddiv {} {}", eta_, plain_.signature());
}

Message Client::handle(const Message& task, ClientContext& context) const {
  context.options().mixup = options_.mixup;
  if (task.kind() == "warm_up") {
    const State trained = context.train_by(Objective(context.options(), options_.eta),
                                           task.get<State>("model"), round_of(task));
    return train_done(trained, context).renamed("warm_up_done");
  }
  return train(task, context);
}

Message Client::train(const Message& task, ClientContext& context) const {
  const auto& start = task.get<State>("model");
  if (context.size() == 0) {
    return train_done(start.clone(), context).set("filter", std::vector<double>());
  }
  Chosen picked = chosen(task, context);
  State trained = train_on(picked, start, round_of(task), context);
  std::vector<double> filter = look_back(task, trained, context);
  context.trace().suspected = std::move(picked.suspected);
  context.trace().selected = std::move(picked.used);
  context.trace().last_labels = std::move(picked.label);
  return train_done(std::move(trained), context).set("filter", std::move(filter));
}

Chosen Client::chosen(const Message& task, ClientContext& context) const {
  const LocalSet set = context.local_set();
  const at::Tensor outputs = logits_under(task.get<State>("model"), context);
  const std::vector<double> normalised = normalised_losses(outputs, context);
  const auto& sent = task.get<std::vector<double>>("filter");
  if (!sent.empty() && !filter_of(sent)) {
    throw Error(ErrorKind::peer, "message 'train' holds a filter that is no mixture");
  }
  std::vector<double> clean(static_cast<std::size_t>(set.size()), 1.0);
  if (!normalised.empty()) {
    clean = sent.empty() ? gmm2(normalised).clean_posterior
                         : clean_posteriors(normalised, *filter_of(sent));
  }
  const auto [confidence, label] = outputs.softmax(1).max(1);
  const at::Tensor sure = confidence.to(at::kFloat).cpu().contiguous();
  const at::Tensor classes = label.cpu().contiguous();
  const Prediction prediction{
      {sure.data_ptr<float>(), sure.data_ptr<float>() + sure.numel()},
      {classes.data_ptr<std::int64_t>(), classes.data_ptr<std::int64_t>() + classes.numel()}};
  const Archive& archive = context.archive();
  std::span<const std::int64_t> local;
  if (const auto found = archive.tensors.find(kLocal); found != archive.tensors.end()) {
    local = {found->second.data_ptr<std::int64_t>(), static_cast<std::size_t>(set.size())};
  }
  return choose(clean, set.labels, prediction, local,
                archive.values.value(kParticipations, std::int64_t{0}), options_);
}

State Client::train_on(const Chosen& chosen, const State& start, std::int64_t round,
                       ClientContext& context) const {
  const Subset subset({context.local_set().samples, chosen.label}, chosen.used);
  if (subset.set().size() == 0) {
    return start.clone();
  }
  Trainer& trainer = context.trainer();
  const TrainKey key = context.key(round);
  const Plan plan = make_plan(subset.set(), context.options(), context.augment(), key);
  trainer.begin({start}, key);
  trainer.take_steps(plan, Objective(context.options(), options_.eta),
                     stepping(context.options(), round));
  return trainer.finished_model();
}

std::vector<double> Client::look_back(const Message& task, const State& trained,
                                      ClientContext& context) const {
  const at::Tensor outputs = logits_under(trained, context);
  const at::Tensor logits = outputs.to(at::kDouble).cpu().contiguous();
  if (!logits.isfinite().all().item<bool>()) {
    return {};
  }
  Archive& archive = context.archive();
  const std::int64_t classes = logits.size(1);
  const at::Tensor prior =
      context.recall(kPrior, at::full({classes}, 1.0 / static_cast<double>(classes), at::kDouble));
  archive.tensors[kLocal] = at::tensor(
      local_classes(doubles(logits), doubles(prior), options_.prior_weight()), at::kLong);
  archive.tensors[kPrior] =
      at::tensor(next_prior(doubles(logits), doubles(prior), options_), at::kDouble);
  archive.values[kParticipations] =
      archive.values.value(kParticipations, std::int64_t{0}) + std::int64_t{1};
  if (options_.filter == FilterOf::own) {
    return {};
  }
  const std::vector<double> normalised = normalised_losses(outputs, context);
  const auto known = filter_of(task.get<std::vector<double>>("filter"));
  return values_of(parameters_of(known ? gmm2_from(normalised, *known) : gmm2(normalised)));
}

void Client::check_memory(ClientContext& context) const {
  const Archive& archive = context.archive();
  const std::int64_t classes = context.classes();
  require_range(archive.tensor(kLocal, at::kLong, {context.size()}), kLocal, 0, classes - 1);
  const at::Tensor prior = archive.tensor(kPrior, at::kDouble, {classes});
  if (prior.defined() && prior.lt(0).any().item<bool>()) {
    throw Error(ErrorKind::run, fmt::format("tensor '{}' holds a negative share", kPrior));
  }
  if (const auto count = archive.find(kParticipations)) {
    count->count();
  }
}

}  // namespace winnow::feddiv

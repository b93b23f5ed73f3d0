#include "winnow/method/noisy_label/fedgr/client.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <span>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/method/local_training.h"
#include "winnow/train/loss.h"

namespace winnow::fedgr {
namespace {

constexpr const char* kLosses = "fedgr.losses";
constexpr const char* kSeen = "fedgr.seen";
constexpr const char* kSlow = "fedgr.slow";
constexpr const char* kCleanness = "fedgr.clean";

std::vector<double> doubles_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kDouble).cpu().contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

at::Tensor tensor_of(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble);
}

}  // namespace

// spec: rivals 4.3
at::Tensor refined_loss(const at::Tensor& logits, const at::Tensor& given,
                        const at::Tensor& refined, const at::Tensor& clean) {
  const auto losses = [&](const at::Tensor& labels) {
    return at::cross_entropy_loss(logits, labels, {}, at::Reduction::None);
  };
  const at::Tensor known = refined.ge(0).to(at::kFloat);
  return (clean * losses(given) + (1 - clean) * known * losses(refined.clamp_min(0))).mean();
}

// spec: rivals 4.4
at::Tensor divergence(const at::Tensor& target, const at::Tensor& value, double temperature) {
  const at::Tensor t = target.div(temperature);
  const at::Tensor log_t = t.log_softmax(1);
  return (log_t.exp() * (log_t - value.div(temperature).log_softmax(1))).sum(1).mean();
}

at::Tensor Objective::loss(const Batch& batch, const Models& models) const {
  const at::Tensor places = buffers_.place.index_select(0, batch.entries);
  const at::Tensor features = models[0].features(batch.images, models.training);
  const at::Tensor logits = models[0].logits(features).to(at::kFloat);
  at::Tensor value = refined_loss(logits, batch.labels, buffers_.refined.index_select(0, places),
                                  buffers_.clean.index_select(0, places));
  if (options_.ema_weight != 0.0) {
    value = value +
            divergence(buffers_.slow.index_select(0, places), logits, options_.ema_temperature) *
                options_.ema_weight;
  }
  if (options_.feature_weight != 0.0) {
    value = value + divergence(buffers_.features.index_select(0, places), features.to(at::kFloat),
                               options_.feature_temperature) *
                        options_.feature_weight;
  }
  return value;
}

std::string Objective::signature() const {
  return fmt::format("fedgr {} {} {} {}", options_.ema_weight, options_.ema_temperature,
                     options_.feature_weight, options_.feature_temperature);
}

Client::View Client::look(const State& model, std::int64_t round, ClientContext& context) const {
  View view;
  view.logits = context.logits(model, context.options().eval_batch);
  std::vector<at::Tensor> features;
  std::vector<at::Tensor> weak;
  context.scorer().each_batch(context.feed(), context.local_set().samples,
                              context.options().eval_batch, context.draw_view("fedgr weak", round),
                              /*training=*/false,
                              [&](const at::Tensor& seen, const at::Tensor& said) {
                                features.push_back(seen.to(at::kFloat));
                                weak.push_back(said.to(at::kFloat));
                              });
  view.features = at::cat(features);
  view.weak = at::cat(weak);
  view.losses = doubles_of(losses(view.logits, context.labels_tensor()));
  view.finite =
      view.logits.isfinite().all().item<bool>() && view.weak.isfinite().all().item<bool>();
  return view;
}

std::vector<double> Client::clean_before(const Message& task, ClientContext& context) const {
  const Archive& archive = context.archive();
  const auto& sent = task.get<std::vector<double>>("mixture");
  const bool known = archive.tensors.contains(kLosses);
  if (options_.selection == Selection::intra) {
    return known ? doubles_of(archive.tensors.at(kCleanness)) : std::vector<double>();
  }
  if (sent.empty() || !known) {
    return {};
  }
  if (sent.size() != 6 || !(sent[2] > 0.0) || !(sent[3] > 0.0)) {
    throw Error(ErrorKind::peer, "message 'train' holds a mixture that is none");
  }
  const MixtureParameters mixture{{sent[0], sent[1]}, {sent[2], sent[3]}, {sent[4], sent[5]}};
  return clean_posteriors(doubles_of(archive.tensors.at(kLosses)), mixture);
}

void Client::remember_losses(const View& view, ClientContext& context) const {
  Archive& archive = context.archive();
  const auto seen = archive.values.value(kSeen, std::int64_t{0});
  std::vector<double> mean = archive.tensors.contains(kLosses)
                                 ? doubles_of(archive.tensors.at(kLosses))
                                 : std::vector<double>(view.losses.size(), 0.0);
  roll(mean, view.losses, seen);
  archive.values[kSeen] = seen + 1;
  archive.tensors[kLosses] = tensor_of(mean);
  if (options_.selection == Selection::intra) {
    archive.tensors[kCleanness] = tensor_of(gmm2(mean, kFit).clean_posterior);
  }
}

at::Tensor Client::slow_logits(const State& slow, std::int64_t round,
                               ClientContext& context) const {
  return context.logits(slow, context.options().eval_batch, context.draw_view("fedgr weak", round))
      .to(at::kFloat);
}

State Client::train_refined(const Message& task, const View& view, std::vector<double> clean,
                            ClientContext& context) const {
  const std::int64_t round = round_of(task);
  const auto& start = task.get<State>("model");
  const LocalSet set = context.local_set();
  clean.resize(static_cast<std::size_t>(set.size()), 1.0);  // nothing is known: all clean
  const auto [sure, classes] = view.weak.softmax(1).max(1);
  const at::Tensor confidence = sure.cpu().contiguous();
  const at::Tensor predicted = classes.cpu().contiguous();
  const auto count = static_cast<std::size_t>(set.size());
  const Refined refined = refine(clean, set.labels, {confidence.data_ptr<float>(), count},
                                 {predicted.data_ptr<std::int64_t>(), count}, options_);
  Trainer& trainer = context.trainer();
  auto& tensors = context.archive().tensors;
  State slow = start.clone();
  if (const auto known = tensors.find(kSlow);
      known != tensors.end() && !resets(refined, round, options_)) {
    slow.flat.mul_(1.0 - options_.ema_decay)
        .add_(known->second.to(slow.flat.device()), options_.ema_decay);
  }
  const bool refined_only = refined.noisy >= options_.upper_noise;
  const TrainKey key = context.key(round);
  const Plan plan = make_plan(set, context.options(), context.augment(), key);
  const at::Tensor slow_says = slow_logits(slow, round, context);
  trainer.begin({start}, key);
  const Buffers buffers{
      .clean = fill(trainer, "fedgr.weight",
                    refined_only ? at::zeros({set.size()}) : tensor_of(clean).to(at::kFloat)),
      .refined = fill(trainer, "fedgr.refined", at::tensor(refined.labels, at::kLong)),
      .slow = fill(trainer, "fedgr.slow_logits", slow_says),
      .features = fill(trainer, "fedgr.features", view.features),
      .place = fill(trainer, "fedgr.place", plan.place)};
  trainer.take_steps(plan, Objective(buffers, options_), stepping(context.options(), round));
  State trained = trainer.finished_model();
  if (all_finite(trained)) {
    slow.flat.mul_(options_.ema_decay).add_(trained.flat, 1.0 - options_.ema_decay);
    tensors[kSlow] = slow.flat.cpu();
    Labels used;
    std::vector<bool> selected;
    for (std::size_t i = 0; i < refined.labels.size(); ++i) {
      selected.push_back(refined.labels[i] >= 0);
      used.push_back(refined.labels[i] >= 0 ? refined.labels[i] : set.labels[i]);
    }
    context.trace().suspected = refined.suspected;
    context.trace().selected = std::move(selected);
    context.trace().last_labels = std::move(used);
  }
  return trained;
}

Message Client::handle(const Message& task, ClientContext& context) const {
  const std::int64_t round = round_of(task);
  const auto& start = task.get<State>("model");
  context.options().mixup = 0.0;  // a mixture has no loss of its own to be remembered
  std::vector<float> told;
  State trained;
  if (context.size() == 0) {
    trained = start.clone();
  } else {
    const View view = look(start, round, context);
    std::vector<double> clean = clean_before(task, context);
    if (view.finite) {
      remember_losses(view, context);
    }
    trained = round < options_.sniff_rounds || !view.finite
                  ? context.train(start, round, {}).state
                  : train_refined(task, view, std::move(clean), context);
    if (options_.selection == Selection::inter && view.finite) {
      for (const double mean : doubles_of(context.archive().tensors.at(kLosses))) {
        told.push_back(static_cast<float>(mean));
      }
    }
  }
  return train_done(std::move(trained), context).set("losses", std::move(told));
}

void Client::check_memory(ClientContext& context) const {
  const Archive& archive = context.archive();
  const at::Tensor mean = archive.tensor(kLosses, at::kDouble, {context.size()});
  const at::Tensor clean = archive.tensor(kCleanness, at::kDouble, {context.size()});
  archive.tensor(kSlow, at::kFloat, {context.layout()->total()});
  const auto outside = [](const at::Tensor& values, double high) {
    return values.defined() && values.lt(0).logical_or(values.gt(high)).any().item<bool>();
  };
  if (outside(mean, std::numeric_limits<float>::max()) || outside(clean, 1.0)) {
    throw Error(ErrorKind::run, fmt::format("{} or {} is out of range", kLosses, kCleanness));
  }
  const auto seen = archive.find(kSeen);
  if (seen) {
    seen->count();
  }
  if (mean.defined() != seen.has_value() ||
      (options_.selection == Selection::intra && mean.defined() != clean.defined())) {
    throw Error(ErrorKind::run,
                fmt::format("{}, {} and {} cannot be combined", kLosses, kSeen, kCleanness));
  }
}

}  // namespace winnow::fedgr

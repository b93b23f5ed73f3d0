#include "winnow/train/lane.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "winnow/base/error.h"
#include "winnow/base/random.h"
#include "winnow/train/loss.h"
#include "winnow/train/sgd.h"

namespace winnow {
namespace {

// A generator of the lane's own, so that dropout never touches the library's global one.
at::Generator make_generator(at::Device device) {
  if (device.is_cpu()) {
    return at::make_generator<at::CPUGeneratorImpl>();
  }
  return at::globalContext().defaultGenerator(device).clone();
}

at::Tensor index_tensor(std::span<const std::int64_t> values, at::Device device) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::ranges::copy(values, tensor.data_ptr<std::int64_t>());
  return tensor.to(device);
}

}  // namespace

Score& Score::operator+=(const Score& other) {
  correct += other.correct;
  count += other.count;
  loss_sum += other.loss_sum;
  return *this;
}

Lane::Lane(std::unique_ptr<Net> net, const Feed& feed, bool augment, const std::atomic<bool>* stop,
           std::unique_ptr<Net> trainer, bool low)
    : net_(std::move(net)),
      trainer_(std::move(trainer)),
      feed_(&feed),
      augment_(augment),
      stop_(stop),
      layout_(net_->weights().layout()),
      state_(State::zeros(layout_, feed.device())),
      gradient_(at::zeros({layout_->parameters()}, at::device(feed.device()).dtype(at::kFloat))),
      velocity_(at::zeros_like(gradient_)),
      dropout_(make_generator(feed.device())) {
  net_->weights().bind(state_.flat, gradient_);
  if (trainer_ != nullptr) {
    gpu_ = std::make_unique<GpuTrainer>(*trainer_, feed, state_, low, dropout_);
  }
}

void Lane::on_stream(const std::function<void()>& work) const {
  if (gpu_ != nullptr) {
    gpu_->on_stream(work);
  } else {
    work();
  }
}

void Lane::check_stop() const {
  if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
    throw Interrupted();
  }
}

void Lane::load(const State& state) {
  state_.flat.copy_(state.flat);
}

at::Tensor Lane::output(const at::Tensor& images) {
  const c10::NoGradGuard no_gradient;
  return net_->forward(images.to(feed_->device()), Pass{});
}

std::pair<std::int64_t, std::int64_t> Lane::head_range() const {
  // declare_head() puts them side by side.
  const Slot& weight = *layout_->find(net_->head_name() + ".weight");
  const Slot& bias = *layout_->find(net_->head_name() + ".bias");
  return {weight.offset, weight.size + bias.size};
}

Batch Lane::make_batch(const Plan& plan, std::size_t number) {
  const auto [start, size] = plan.batches[number];
  const auto slice = [start = start, size = size](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.narrow(0, start, size) : tensor;
  };
  at::Tensor images = feed_->batch(slice(plan.index), slice(plan.jitter), input_);
  const at::Tensor labels = slice(plan.label);
  if (!plan.partner.defined()) {
    return {images, labels, {}, {}};
  }
  // Mixup, one lambda per batch (spec: label-noise A.3).
  const at::Tensor partner = slice(plan.partner);
  const at::Tensor lambda = plan.lambda.select(0, static_cast<std::int64_t>(number));
  return {images.mul(lambda).add_(images.index_select(0, partner).mul_(1 - lambda)), labels,
          labels.index_select(0, partner), lambda};
}

at::Tensor Lane::batch_loss(const Batch& batch, const TrainOptions& options, bool head_only) const {
  const Pass pass{.training = true, .dropout = &dropout_};
  at::Tensor logits;
  if (head_only) {
    at::Tensor features;
    {
      const c10::NoGradGuard frozen;
      features = trainer().features(batch.images, pass);
    }
    logits = trainer().logits(features);
  } else {
    logits = trainer().forward(batch.images, pass);
  }
  logits = logits.to(at::kFloat);
  const auto loss = [&](const at::Tensor& targets) {
    return smoothed_cross_entropy(logits, targets, options.label_smoothing, options.temperature);
  };
  if (!batch.lambda.defined()) {
    return loss(batch.labels);
  }
  return loss(batch.labels) * batch.lambda + loss(batch.partner_labels) * (1 - batch.lambda);
}

at::Tensor Lane::train_on_cpu(const Plan& plan, const TrainOptions& options, double lr,
                              const LocalRule& rule, const at::Tensor& start) {
  const SgdOptions plain{
      .lr = lr, .momentum = options.momentum, .weight_decay = options.weight_decay};
  SgdOptions pulled = plain;
  pulled.proximal = rule.proximal;
  pulled.pull = rule.pull;
  const auto [first, count] =
      rule.head_only ? head_range() : std::pair(std::int64_t{0}, layout_->parameters());
  const auto trained = [first = first, count = count](const at::Tensor& flat) {
    return flat.defined() ? flat.narrow(0, first, count) : flat;
  };
  const at::Tensor anchor = rule.proximal != 0.0 ? trained(start) : at::Tensor();
  const at::Tensor drift = trained(rule.drift);
  at::Tensor weights = trained(state_.flat);
  at::Tensor gradient = trained(gradient_);
  at::Tensor velocity = trained(velocity_);
  gradient_.zero_();
  const auto steps = static_cast<std::int64_t>(plan.batches.size());
  const std::int64_t epoch = plan.index.numel() / options.epochs;
  at::Tensor losses = at::empty({steps}, at::kFloat);
  for (std::int64_t step = 0; step < steps; ++step) {
    check_stop();
    const auto place = static_cast<std::size_t>(step);
    const at::Tensor loss = batch_loss(make_batch(plan, place), options, rule.head_only);
    torch::autograd::backward({loss}, {});
    if (drift.defined()) {
      gradient.add_(drift);
    }
    const bool spared = rule.spare_first_batch && plan.batches[place].start % epoch == 0;
    sgd_step(weights, gradient, velocity, anchor, spared ? plain : pulled, step == 0);
    losses.data_ptr<float>()[step] = *loss.data_ptr<float>();
  }
  return losses;
}

TrainOutcome Lane::train(const State& start, const LocalSet& set, const TrainOptions& options,
                         const LocalRule& rule, const TrainKey& key) {
  TrainOutcome outcome;
  if (set.size() == 0) {
    outcome.state = start.clone();
    return outcome;
  }
  dropout_.set_current_seed(
      stream_key(key.seed, "dropout",
                 {static_cast<std::uint64_t>(key.round), static_cast<std::uint64_t>(key.client)}));
  const Plan plan = make_plan(set, options, augment_, key);
  const double lr = options.lr * std::pow(options.lr_decay, static_cast<double>(key.round));
  outcome.steps = static_cast<std::int64_t>(plan.batches.size());
  at::Tensor losses;
  on_stream([&] {
    load(start);
    if (gpu_ != nullptr) {
      losses = gpu_->train(
          plan, options, lr, rule,
          [&](const Batch& batch) { return batch_loss(batch, options, rule.head_only); },
          [&] { check_stop(); });
    } else {
      losses = train_on_cpu(plan, options, lr, rule, start.flat);
    }
    if (layout_->counters() > 0) {
      state_.counters().add_(outcome.steps);
    }
    outcome.state = state_.clone();
    losses = losses.cpu();  // waits for the device, once
  });
  for (std::size_t step = 0; step < plan.batches.size(); ++step) {
    const double loss = losses.data_ptr<float>()[step];
    outcome.step_loss += loss;
    outcome.mean_loss += loss * static_cast<double>(plan.batches[step].size);
  }
  outcome.step_loss /= static_cast<double>(outcome.steps);
  outcome.mean_loss /= static_cast<double>(set.size() * options.epochs);
  return outcome;
}

void Lane::each_batch(const Feed& feed, std::span<const std::int64_t> samples, std::int64_t batch,
                      const Jitter& jitter, bool training, const Visit& visit) {
  const c10::NoGradGuard no_gradient;
  const at::Tensor index = index_tensor(samples, feed.device());
  const at::Tensor moves = jitter.defined() ? jitter.to(feed.device()) : jitter;
  const Pass pass{.training = training, .dropout = &dropout_};
  for (std::int64_t start = 0; start < index.size(0); start += batch) {
    check_stop();
    const std::int64_t size = std::min(batch, index.size(0) - start);
    const at::Tensor images =
        feed.batch(index.narrow(0, start, size),
                   moves.defined() ? moves.narrow(0, start, size) : moves, input_);
    const at::Tensor features = net_->features(images, pass);
    visit(features, net_->logits(features));
  }
}

void Lane::each_gradient(std::span<const std::int64_t> samples, std::int64_t batch, bool training,
                         const std::string& parameter, const BatchLoss& loss,
                         const std::function<void(const at::Tensor& gradient)>& visit) {
  const Slot* slot = layout_->find(parameter);
  if (slot == nullptr || slot->kind != SlotKind::parameter) {
    throw Error(ErrorKind::experiment,
                fmt::format("the network has no parameter named '{}'", parameter));
  }
  const at::Tensor gradient = gradient_.narrow(0, slot->offset, slot->size).view(slot->shape);
  const at::Tensor index = index_tensor(samples, feed_->device());
  const Pass pass{.training = training, .dropout = &dropout_};
  for (std::int64_t start = 0; start < index.size(0); start += batch) {
    check_stop();
    const std::int64_t size = std::min(batch, index.size(0) - start);
    gradient_.zero_();
    const at::Tensor images = feed_->batch(index.narrow(0, start, size), {}, input_);
    torch::autograd::backward({loss(net_->forward(images, pass), start)}, {});
    visit(gradient);
  }
  gradient_.zero_();
}

at::Tensor Lane::logits(const Feed& feed, std::span<const std::int64_t> samples, std::int64_t batch,
                        const Jitter& jitter) {
  std::vector<at::Tensor> parts;
  each_batch(feed, samples, batch, jitter, false,
             [&](const at::Tensor&, const at::Tensor& logits) { parts.push_back(logits); });
  return parts.empty() ? at::Tensor() : at::cat(parts);
}

Score Lane::score(const Feed& feed, const LocalSet& set, std::int64_t batch) {
  if (set.size() == 0) {
    return {};
  }
  const at::Tensor outputs = logits(feed, set.samples, batch);
  const at::Tensor labels = index_tensor(set.labels, feed.device());
  return {outputs.argmax(1).eq(labels).sum().item<std::int64_t>(), set.size(),
          losses(outputs, labels).sum(at::kDouble).item<double>()};
}

}  // namespace winnow

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

Lane::Lane(std::unique_ptr<Net> net, const Feed& feed, bool augment, const std::atomic<bool>* stop)
    : net_(std::move(net)),
      feed_(&feed),
      augment_(augment),
      stop_(stop),
      layout_(net_->weights().layout()),
      state_(State::zeros(layout_, feed.device())),
      gradient_(at::zeros({layout_->parameters()}, at::device(feed.device()).dtype(at::kFloat))),
      velocity_(at::zeros_like(gradient_)),
      dropout_(make_generator(feed.device())) {
  net_->weights().bind(state_.flat, gradient_);
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

at::Tensor Lane::step_loss(const Plan& plan, std::size_t number, const TrainOptions& options,
                           bool head_only) {
  const auto [start, size] = plan.batches[number];
  const auto slice = [start = start, size = size](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.narrow(0, start, size) : tensor;
  };
  at::Tensor images = feed_->batch(slice(plan.index), slice(plan.jitter), input_);
  const at::Tensor labels = slice(plan.label);
  const Pass pass{.training = true, .dropout = &dropout_};
  const auto forward = [&](const at::Tensor& input) {
    if (!head_only) {
      return net_->forward(input, pass);
    }
    at::Tensor features;
    {
      const c10::NoGradGuard frozen;
      features = net_->features(input, pass);
    }
    return net_->logits(features);
  };
  const auto loss = [&](const at::Tensor& logits, const at::Tensor& targets) {
    return smoothed_cross_entropy(logits, targets, options.label_smoothing, options.temperature);
  };
  if (!plan.partner.defined()) {
    return loss(forward(images), labels);
  }
  // Mixup, one lambda per batch (spec: label-noise A.3).
  const at::Tensor partner = slice(plan.partner);
  const at::Tensor lambda = plan.lambda.select(0, static_cast<std::int64_t>(number));
  const at::Tensor mixed =
      images.mul(lambda).add_(images.index_select(0, partner).mul_(1 - lambda));
  const at::Tensor logits = forward(mixed);
  return loss(logits, labels) * lambda +
         loss(logits, labels.index_select(0, partner)) * (1 - lambda);
}

TrainOutcome Lane::train(const State& start, const LocalSet& set, const TrainOptions& options,
                         const LocalRule& rule, const TrainKey& key) {
  if (set.size() == 0) {
    return {.state = start.clone()};
  }
  load(start);
  gradient_.zero_();
  dropout_.set_current_seed(
      stream_key(key.seed, "dropout",
                 {static_cast<std::uint64_t>(key.round), static_cast<std::uint64_t>(key.client)}));
  const Plan plan = make_plan(set, options, augment_, key).to(feed_->device());
  const double lr = options.lr * std::pow(options.lr_decay, static_cast<double>(key.round));
  const SgdOptions plain{
      .lr = lr, .momentum = options.momentum, .weight_decay = options.weight_decay};
  SgdOptions pulled = plain;
  pulled.proximal = rule.proximal;
  pulled.pull = rule.pull;
  const auto [first, count] =
      rule.head_only ? head_range() : std::pair(std::int64_t{0}, layout_->parameters());
  const auto trained = [first = first, count = count](const at::Tensor& flat) {
    return flat.narrow(0, first, count);
  };
  const at::Tensor anchor =
      rule.proximal != 0.0 ? trained(start.to(feed_->device()).flat) : at::Tensor();
  at::Tensor weights = trained(state_.flat);
  at::Tensor gradient = trained(gradient_);
  at::Tensor velocity = trained(velocity_);
  at::Tensor counters = state_.counters();
  const auto steps = static_cast<std::int64_t>(plan.batches.size());
  const at::Tensor losses = at::empty({steps}, at::device(feed_->device()).dtype(at::kFloat));
  for (std::int64_t step = 0; step < steps; ++step) {
    check_stop();
    const auto place = static_cast<std::size_t>(step);
    const at::Tensor loss = step_loss(plan, place, options, rule.head_only);
    torch::autograd::backward({loss}, {});
    const bool spared = rule.spare_first_batch && plan.batches[place].start % set.size() == 0;
    sgd_step(weights, gradient, velocity, anchor, spared ? plain : pulled, step == 0);
    if (counters.numel() > 0) {
      counters.add_(1);
    }
    losses.select(0, step).copy_(loss.detach());
  }
  TrainOutcome outcome{.state = state_.clone(), .steps = steps};
  const at::Tensor measured = losses.cpu();
  for (std::int64_t step = 0; step < steps; ++step) {
    const double loss = measured.data_ptr<float>()[step];
    outcome.step_loss += loss;
    outcome.mean_loss +=
        loss * static_cast<double>(plan.batches[static_cast<std::size_t>(step)].size);
  }
  outcome.step_loss /= static_cast<double>(steps);
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

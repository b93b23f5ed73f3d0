#include "winnow/train/lane.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

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
      loss_sum_(at::zeros({}, at::device(feed.device()).dtype(at::kDouble))),
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

at::Tensor Lane::step_loss(const Plan& plan, std::size_t number, const TrainOptions& options) {
  const auto [start, size] = plan.batches[number];
  const auto slice = [start = start, size = size](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.narrow(0, start, size) : tensor;
  };
  at::Tensor images = feed_->batch(slice(plan.index), slice(plan.jitter), input_);
  const at::Tensor labels = slice(plan.label);
  const Pass pass{.training = true, .dropout = &dropout_};
  const auto loss = [&](const at::Tensor& logits, const at::Tensor& targets) {
    return smoothed_cross_entropy(logits, targets, options.label_smoothing, options.temperature);
  };
  if (!plan.partner.defined()) {
    return loss(net_->forward(images, pass), labels);
  }
  // Mixup, one lambda per batch (spec: label-noise A.3).
  const at::Tensor partner = slice(plan.partner);
  const at::Tensor lambda = plan.lambda.select(0, static_cast<std::int64_t>(number));
  const at::Tensor mixed =
      images.mul(lambda).add_(images.index_select(0, partner).mul_(1 - lambda));
  const at::Tensor logits = net_->forward(mixed, pass);
  return loss(logits, labels) * lambda +
         loss(logits, labels.index_select(0, partner)) * (1 - lambda);
}

TrainOutcome Lane::train(const State& start, const LocalSet& set, const TrainOptions& options,
                         const LocalRule& rule, const TrainKey& key) {
  if (set.size() == 0) {
    return {start.clone(), 0, 0.0};
  }
  load(start);
  gradient_.zero_();
  loss_sum_.zero_();
  dropout_.set_current_seed(
      stream_key(key.seed, "dropout",
                 {static_cast<std::uint64_t>(key.round), static_cast<std::uint64_t>(key.client)}));
  const Plan plan = make_plan(set, options, augment_, key).to(feed_->device());
  const SgdOptions sgd{options.lr, options.momentum, options.weight_decay, rule.proximal};
  const at::Tensor anchor =
      rule.proximal != 0.0 ? start.to(feed_->device()).parameters() : at::Tensor();
  at::Tensor weights = state_.parameters();
  at::Tensor counters = state_.counters();
  for (std::size_t step = 0; step < plan.batches.size(); ++step) {
    check_stop();
    const at::Tensor loss = step_loss(plan, step, options);
    torch::autograd::backward({loss}, {});
    sgd_step(weights, gradient_, velocity_, anchor, sgd, step == 0);
    if (counters.numel() > 0) {
      counters.add_(1);
    }
    loss_sum_.add_(loss.detach(), static_cast<double>(plan.batches[step].size));
  }
  const double samples = static_cast<double>(set.size() * options.epochs);
  return {state_.clone(), static_cast<std::int64_t>(plan.batches.size()),
          loss_sum_.item<double>() / samples};
}

at::Tensor Lane::logits(const Feed& feed, std::span<const std::int64_t> samples, std::int64_t batch,
                        const Jitter& jitter) {
  const c10::NoGradGuard no_gradient;
  const at::Tensor index = index_tensor(samples, feed.device());
  const at::Tensor moves = jitter.defined() ? jitter.to(feed.device()) : jitter;
  std::vector<at::Tensor> parts;
  for (std::int64_t start = 0; start < index.size(0); start += batch) {
    check_stop();
    const std::int64_t size = std::min(batch, index.size(0) - start);
    const at::Tensor images =
        feed.batch(index.narrow(0, start, size),
                   moves.defined() ? moves.narrow(0, start, size) : moves, input_);
    parts.push_back(net_->forward(images, Pass{}));
  }
  return parts.empty() ? at::Tensor() : at::cat(parts);
}

Score Lane::score(const Feed& feed, const LocalSet& set, std::int64_t batch) {
  if (set.size() == 0) {
    return {};
  }
  const at::Tensor outputs = logits(feed, set.samples, batch);
  const at::Tensor labels = index_tensor(set.labels, feed.device());
  const at::Tensor losses = at::cross_entropy_loss(outputs, labels, {}, at::Reduction::None);
  return {outputs.argmax(1).eq(labels).sum().item<std::int64_t>(), set.size(),
          losses.sum(at::kDouble).item<double>()};
}

}  // namespace winnow

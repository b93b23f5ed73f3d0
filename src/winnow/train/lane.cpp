#include "winnow/train/lane.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "winnow/base/error.h"
#include "winnow/base/random.h"
#include "winnow/train/adam.h"
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
  at::Tensor tensor = at::empty({std::ssize(values)}, at::kLong);
  std::ranges::copy(values, tensor.data_ptr<std::int64_t>());
  return tensor.to(device);
}

Plan on_device(Plan plan, at::Device device) {
  for (at::Tensor* part : {&plan.index, &plan.label, &plan.jitter, &plan.partner, &plan.lambda}) {
    *part = part->defined() ? part->to(device) : *part;
  }
  return plan;
}

}  // namespace

Score& Score::operator+=(const Score& other) {
  correct += other.correct;
  count += other.count;
  loss_sum += other.loss_sum;
  among_five += other.among_five;
  return *this;
}

std::int64_t count_among_five(const at::Tensor& values, const at::Tensor& labels) {
  constexpr std::int64_t kPlaces = 5;
  const at::Tensor own = values.gather(1, labels.view({-1, 1}));
  return values.le(own).logical_not().sum(1).lt(kPlaces).sum().item<std::int64_t>();
}

Lane::Lane(MakeNet make, const Feed& feed, bool augment, const std::atomic<bool>* stop, bool low)
    : make_(std::move(make)),
      feed_(&feed),
      augment_(augment ? Augment(feed.places()) : Augment()),
      stop_(stop),
      dropout_(make_generator(feed.device())) {
  if (feed.device().is_cuda()) {
    gpu_ = std::make_unique<GpuTrainer>(make_, feed, low, dropout_);
  }
  add_replica();
  layout_ = replicas_.front().state.layout;
}

void Lane::add_replica() {
  Replica replica;
  replica.net = make_();
  replica.state = State::zeros(replica.net->weights().layout(), feed_->device());
  replica.gradient = at::zeros({replica.state.layout->parameters()},
                               at::device(feed_->device()).dtype(at::kFloat));
  replica.net->weights().bind(replica.state.flat, replica.gradient);
  if (gpu_ != nullptr) {
    gpu_->add(replica.state);
  }
  replicas_.push_back(std::move(replica));
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
  replicas_.front().state.flat.copy_(state.flat);
}

at::Tensor Lane::output(const at::Tensor& images) {
  const c10::NoGradGuard no_gradient;
  passes_.forward += images.size(0);
  return replicas_.front().net->forward(images.to(feed_->device()), Pass{});
}

at::Tensor Lane::buffer(const std::string& name, std::int64_t rows,
                        const std::vector<std::int64_t>& row_shape, at::ScalarType type) {
  at::Tensor& found = buffers_[name];
  const bool fits = found.defined() && found.size(0) >= rows && found.scalar_type() == type &&
                    found.sizes().slice(1) == at::IntArrayRef(row_shape);
  if (!fits) {
    // Twice the size, so that captured steps, which hold the address, are seldom captured again.
    std::vector<std::int64_t> shape{2 * rows};
    shape.insert(shape.end(), row_shape.begin(), row_shape.end());
    if (gpu_ != nullptr && found.defined()) {
      gpu_->forget();
    }
    found = at::zeros(shape, at::device(feed_->device()).dtype(type));
  }
  return found;
}

std::pair<std::int64_t, std::int64_t> Lane::head_range() const {
  // declare_head() puts them side by side.
  const std::string& head = replicas_.front().net->head_name();
  const Slot& weight = *layout_->find(head + ".weight");
  const Slot& bias = *layout_->find(head + ".bias");
  return {weight.offset, weight.size + bias.size};
}

State Lane::initial(std::uint64_t seed) const {
  return replicas_.front().net->weights().initial(seed).to(feed_->device());
}

Batch Lane::make_batch(const Plan& plan, std::size_t number, bool entries, const Feed& feed) {
  const std::int64_t start = plan.batches[number].start;
  const std::int64_t size = plan.batches[number].size;
  const auto slice = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.narrow(0, start, size) : tensor;
  };
  at::Tensor index = slice(plan.index);
  at::Tensor jitter = plan.jitter;
  if (plan.views > 1) {
    index = index.repeat({plan.views});
    if (jitter.defined()) {
      jitter = jitter.view({plan.views, plan.entries(), 3}).narrow(1, start, size).reshape({-1, 3});
    }
  } else {
    jitter = slice(jitter);
  }
  Batch batch{.images = feed.batch(index, jitter, input_), .labels = slice(plan.label)};
  if (entries) {
    const auto longs = at::device(feed.device()).dtype(at::kLong);
    batch.entries = at::arange(start, start + size, longs);
    batch.step = at::full({1}, static_cast<std::int64_t>(number), longs);
  }
  if (plan.partner.defined()) {
    // Mixup, one lambda per batch (spec: label-noise A.3).
    const at::Tensor partner = slice(plan.partner);
    batch.lambda = plan.lambda.select(0, static_cast<std::int64_t>(number));
    batch.images = batch.images.mul(batch.lambda)
                       .add_(batch.images.index_select(0, partner).mul_(1 - batch.lambda));
    batch.partner_labels = batch.labels.index_select(0, partner);
  }
  return batch;
}

void Lane::step(Replica& replica, const Stepping& how, bool pulled) {
  const auto [first, count] =
      how.rule.head_only ? head_range() : std::pair(std::int64_t{0}, layout_->parameters());
  const auto trained = [first = first, count = count](const at::Tensor& flat) {
    return flat.narrow(0, first, count);
  };
  const auto moment = [&](at::Tensor& flat) {
    if (!flat.defined()) {
      flat = at::zeros_like(replica.gradient);
    }
    return trained(flat);
  };
  at::Tensor weights = trained(replica.state.flat);
  at::Tensor gradient = trained(replica.gradient);
  at::Tensor velocity = moment(replica.velocity);
  ++replica.steps;
  if (how.rule.drift.defined()) {
    gradient.add_(trained(how.rule.drift));
  }
  const at::Tensor anchor = pulled ? trained(replica.anchor) : at::Tensor();
  if (how.optimizer != Optimizer::sgd) {
    at::Tensor square = moment(replica.square);
    const AdamOptions options{.lr = how.lr,
                              .beta1 = how.beta1,
                              .beta2 = how.beta2,
                              .epsilon = how.eps,
                              .weight_decay = how.weight_decay,
                              .decoupled = how.optimizer == Optimizer::adamw,
                              .proximal = pulled ? how.rule.proximal : 0.0,
                              .pull = how.rule.pull};
    adam_step(weights, gradient, velocity, square, anchor, options, replica.steps);
    return;
  }
  const SgdOptions options{.lr = how.lr,
                           .momentum = how.momentum,
                           .weight_decay = how.weight_decay,
                           .proximal = pulled ? how.rule.proximal : 0.0,
                           .pull = how.rule.pull};
  sgd_step(weights, gradient, velocity, anchor, options, replica.steps == 1);
}

at::Tensor Lane::run_one_by_one(const Plan& given, const Objective& objective, const Stepping& how,
                                const Feed& feed) {
  const Plan plan = on_device(given, feed.device());
  Models models{.nets = {}, .training = {.training = true, .dropout = &dropout_}};
  for (Replica& replica : replicas_) {
    models.nets.push_back(replica.net.get());
    replica.gradient.zero_();
  }
  const auto steps = std::ssize(plan.batches);
  at::Tensor losses = at::empty({steps}, at::device(feed.device()).dtype(at::kFloat));
  for (std::int64_t number = 0; number < steps; ++number) {
    check_stop();
    const auto place = static_cast<std::size_t>(number);
    const at::Tensor loss =
        objective.loss(make_batch(plan, place, objective.reads_entries(), feed), models);
    torch::autograd::backward({loss}, {});
    const bool spared = how.rule.spare_first_batch && plan.batches[place].opens_epoch;
    for (const std::size_t model : how.models) {
      step(replicas_[model], how, how.rule.proximal != 0.0 && !spared);
    }
    losses.select(0, number).copy_(loss.detach());
  }
  return losses;
}

void Lane::begin(const std::vector<State>& starts, const TrainKey& key) {
  while (replicas_.size() < starts.size()) {
    add_replica();
  }
  dropout_.set_current_seed(
      stream_key(key.seed, "dropout",
                 {static_cast<std::uint64_t>(key.round), static_cast<std::uint64_t>(key.client)}));
  for (std::size_t i = 0; i < starts.size(); ++i) {
    Replica& replica = replicas_[i];
    replica.state.flat.copy_(starts[i].flat);
    replica.anchor = starts[i].flat;
    replica.steps = 0;
  }
  if (gpu_ != nullptr) {
    gpu_->begin(starts);
  }
}

at::Tensor Lane::run(const Plan& plan, const Objective& objective, const Stepping& how,
                     const Feed* feed) {
  const bool captured = gpu_ != nullptr && how.optimizer == Optimizer::sgd && feed == nullptr;
  at::Tensor losses = captured
                          ? gpu_->run(plan, objective, how, [this] { check_stop(); })
                          : run_one_by_one(plan, objective, how, feed != nullptr ? *feed : *feed_);
  passes_ += plan.entries() * objective.passes(plan.views);
  if (layout_->counters() > 0) {
    for (const std::size_t model : how.models) {
      replicas_[model].state.counters().add_(std::ssize(plan.batches));
    }
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
  const Plan plan = make_plan(set, options, augment_, key);
  outcome.steps = std::ssize(plan.batches);
  at::Tensor losses;
  on_stream([&] {
    begin({start}, key);
    Stepping how = stepping(options, key.round);
    how.rule = rule;
    losses = run(plan, CrossEntropy(options, rule.head_only), how);
    outcome.state = model();
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

void Lane::each_input(const Feed& feed, std::span<const std::int64_t> samples, std::int64_t batch,
                      const Jitter& jitter,
                      const std::function<void(const at::Tensor& images)>& visit) {
  const c10::NoGradGuard no_gradient;
  const at::Tensor index = index_tensor(samples, feed.device());
  const at::Tensor moves = jitter.defined() ? jitter.to(feed.device()) : jitter;
  for (std::int64_t start = 0; start < index.size(0); start += batch) {
    check_stop();
    const std::int64_t size = std::min(batch, index.size(0) - start);
    passes_.forward += size;
    visit(feed.batch(index.narrow(0, start, size),
                     moves.defined() ? moves.narrow(0, start, size) : moves, input_));
  }
}

void Lane::each_batch(const Feed& feed, std::span<const std::int64_t> samples, std::int64_t batch,
                      const Jitter& jitter, bool training, const Visit& visit, std::size_t model) {
  const Pass pass{.training = training, .dropout = &dropout_};
  const Net& net = *replicas_[model].net;
  each_input(feed, samples, batch, jitter, [&](const at::Tensor& images) {
    const at::Tensor features = net.features(images, pass);
    visit(features, net.logits(features));
  });
}

void Lane::each_gradient(std::span<const std::int64_t> samples, std::int64_t batch, bool training,
                         const std::string& parameter, const BatchLoss& loss,
                         const std::function<void(const at::Tensor& gradient)>& visit) {
  const Slot* slot = layout_->find(parameter);
  if (slot == nullptr || slot->kind != SlotKind::parameter) {
    throw Error(ErrorKind::experiment,
                fmt::format("the network has no parameter named '{}'", parameter));
  }
  Replica& replica = replicas_.front();
  const at::Tensor gradient =
      replica.gradient.narrow(0, slot->offset, slot->size).view(slot->shape);
  const at::Tensor index = index_tensor(samples, feed_->device());
  const Pass pass{.training = training, .dropout = &dropout_};
  for (std::int64_t start = 0; start < index.size(0); start += batch) {
    check_stop();
    const std::int64_t size = std::min(batch, index.size(0) - start);
    replica.gradient.zero_();
    passes_ += {.forward = size, .backward = size};
    const at::Tensor images = feed_->batch(index.narrow(0, start, size), {}, input_);
    torch::autograd::backward({loss(replica.net->forward(images, pass), start)}, {});
    visit(gradient);
  }
  replica.gradient.zero_();
}

at::Tensor Lane::logits(const Feed& feed, std::span<const std::int64_t> samples, std::int64_t batch,
                        const Jitter& jitter, std::size_t model) {
  std::vector<at::Tensor> parts;
  const Net& net = *replicas_[model].net;
  each_input(feed, samples, batch, jitter,
             [&](const at::Tensor& images) { parts.push_back(net.forward(images, Pass{})); });
  return parts.empty() ? at::Tensor() : at::cat(parts);
}

Score Lane::score(const Feed& feed, const LocalSet& set, std::int64_t batch) {
  if (set.size() == 0) {
    return {};
  }
  const at::Tensor outputs = logits(feed, set.samples, batch);
  const at::Tensor labels = index_tensor(set.labels, feed.device());
  return {outputs.argmax(1).eq(labels).sum().item<std::int64_t>(), set.size(),
          losses(outputs, labels).sum(at::kDouble).item<double>(),
          count_among_five(outputs, labels)};
}

}  // namespace winnow

#include "winnow/train/trainer.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "winnow/base/random.h"
#include "winnow/train/adam.h"
#include "winnow/train/sgd.h"

namespace winnow {
namespace {

std::int64_t steps_of(const Plan& plan, const Stepping& how) {
  return static_cast<std::int64_t>(plan.batches.size() * how.models.size());
}

Plan on_device(Plan plan, at::Device device) {
  for (at::Tensor* part : {&plan.index, &plan.label, &plan.jitter, &plan.partner, &plan.lambda}) {
    *part = part->defined() ? part->to(device) : *part;
  }
  return plan;
}

}  // namespace

at::Tensor Trainer::buffer(const std::string& name, std::int64_t rows,
                           const std::vector<std::int64_t>& row_shape, at::ScalarType type) {
  at::Tensor& found = buffers_[name];
  const bool fits = found.defined() && found.size(0) >= rows && found.scalar_type() == type &&
                    found.sizes().slice(1) == at::IntArrayRef(row_shape);
  if (!fits) {
    // Twice the size, so that captured steps, which hold the address, are seldom captured again.
    std::vector<std::int64_t> shape{2 * rows};
    shape.insert(shape.end(), row_shape.begin(), row_shape.end());
    if (nets_->gpu() != nullptr && found.defined()) {
      nets_->gpu()->forget();
    }
    found = at::zeros(shape, at::device(nets_->device()).dtype(type));
  }
  return found;
}

std::pair<std::int64_t, std::int64_t> Trainer::head_range() const {
  // declare_head() puts them side by side.
  const std::string& head = (*nets_)[0].net->head_name();
  const Slot& weight = *nets_->layout()->find(head + ".weight");
  const Slot& bias = *nets_->layout()->find(head + ".bias");
  return {weight.offset, weight.size + bias.size};
}

Batch Trainer::make_batch(const Plan& plan, std::size_t number, bool entries, const Feed& feed) {
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
  Batch batch{.images = feed.batch(index, jitter, nets_->input()), .labels = slice(plan.label)};
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

void Trainer::step(std::size_t model, const Stepping& how, bool pulled) {
  Nets::Replica& replica = (*nets_)[model];
  Moments& moments = moments_[model];
  const auto [first, count] =
      how.rule.head_only ? head_range() : std::pair(std::int64_t{0}, nets_->layout()->parameters());
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
  at::Tensor velocity = moment(moments.velocity);
  ++moments.steps;
  if (how.rule.drift.defined()) {
    gradient.add_(trained(how.rule.drift));
  }
  const at::Tensor anchor = pulled ? trained(moments.anchor) : at::Tensor();
  if (how.optimizer != Optimizer::sgd) {
    at::Tensor square = moment(moments.square);
    const AdamOptions options{.lr = how.lr,
                              .beta1 = how.beta1,
                              .beta2 = how.beta2,
                              .epsilon = how.eps,
                              .weight_decay = how.weight_decay,
                              .decoupled = how.optimizer == Optimizer::adamw,
                              .proximal = pulled ? how.rule.proximal : 0.0,
                              .pull = how.rule.pull};
    adam_step(weights, gradient, velocity, square, anchor, options, moments.steps);
    return;
  }
  const SgdOptions options{.lr = how.lr,
                           .momentum = how.momentum,
                           .weight_decay = how.weight_decay,
                           .proximal = pulled ? how.rule.proximal : 0.0,
                           .pull = how.rule.pull};
  sgd_step(weights, gradient, velocity, anchor, options, moments.steps == 1);
}

at::Tensor Trainer::take_one_by_one(const Plan& given, const Objective& objective,
                                    const Stepping& how, const Feed& feed) {
  const Plan plan = on_device(given, feed.device());
  Models models{.nets = {}, .training = {.training = true, .dropout = &nets_->dropout()}};
  for (std::size_t number = 0; number < nets_->size(); ++number) {
    Nets::Replica& replica = (*nets_)[number];
    models.nets.push_back(replica.net.get());
    replica.gradient.zero_();
  }
  const auto steps = std::ssize(plan.batches);
  at::Tensor losses = at::empty({steps}, at::device(feed.device()).dtype(at::kFloat));
  for (std::int64_t number = 0; number < steps; ++number) {
    nets_->check_stop();
    const auto place = static_cast<std::size_t>(number);
    const at::Tensor loss =
        objective.loss(make_batch(plan, place, objective.reads_entries(), feed), models);
    torch::autograd::backward({loss}, {});
    const bool spared = how.rule.spare_first_batch && plan.batches[place].opens_epoch;
    for (const std::size_t model : how.models) {
      step(model, how, how.rule.proximal != 0.0 && !spared);
    }
    losses.select(0, number).copy_(loss.detach());
  }
  return losses;
}

void Trainer::begin(const std::vector<State>& starts, const TrainKey& key) {
  nets_->have(starts.size());
  moments_.resize(nets_->size());
  nets_->dropout().set_current_seed(
      stream_key(key.seed, "dropout",
                 {static_cast<std::uint64_t>(key.round), static_cast<std::uint64_t>(key.client)}));
  for (std::size_t i = 0; i < starts.size(); ++i) {
    (*nets_)[i].state.flat.copy_(starts[i].flat);
    moments_[i].anchor = starts[i].flat;
    moments_[i].steps = 0;
  }
  if (nets_->gpu() != nullptr) {
    nets_->gpu()->begin(starts);
  }
}

at::Tensor Trainer::take(const Plan& plan, const Objective& objective, const Stepping& how,
                         const Feed* feed) {
  const bool captured =
      nets_->gpu() != nullptr && how.optimizer == Optimizer::sgd && feed == nullptr;
  at::Tensor losses =
      captured ? nets_->gpu()->run(plan, objective, how, [this] { nets_->check_stop(); })
               : take_one_by_one(plan, objective, how, feed != nullptr ? *feed : nets_->feed());
  passes_ += plan.entries() * objective.passes(plan.views);
  if (nets_->layout()->counters() > 0) {
    for (const std::size_t model : how.models) {
      (*nets_)[model].state.counters().add_(std::ssize(plan.batches));
    }
  }
  return losses;
}

at::Tensor Trainer::run(const Plan& plan, const Objective& objective, const Stepping& how,
                        const Feed* feed) {
  at::Tensor losses = take(plan, objective, how, feed);
  steps_ += feed == nullptr ? steps_of(plan, how) : 0;
  return losses;
}

void Trainer::take_steps(const Plan& plan, const Objective& objective, const Stepping& how) {
  if (plan.batches.empty()) {
    return;
  }
  // Reading the losses waits for the device: the buffers may change afterwards.
  const at::Tensor losses = run(plan, objective, how).to(at::kDouble).cpu().contiguous();
  for (std::size_t step = 0; step < plan.batches.size(); ++step) {
    const std::int64_t samples = plan.batches[step].size;
    loss_ += {losses.data_ptr<double>()[step] * static_cast<double>(samples), samples};
  }
}

State Trainer::finished_model(std::size_t number) const {
  State finished = model(number);
  wait_for(nets_->device());
  return finished;
}

void Trainer::forget_counts() {
  steps_ = 0;
  loss_ = {};
}

TrainOutcome Trainer::train(const State& start, const LocalSet& set, const TrainOptions& options,
                            const LocalRule& rule, const TrainKey& key) {
  TrainOutcome outcome;
  if (set.size() == 0) {
    outcome.state = start.clone();
    return outcome;
  }
  const Plan plan = make_plan(set, options, nets_->augment(), key);
  outcome.steps = std::ssize(plan.batches);
  at::Tensor losses;
  nets_->on_stream([&] {
    begin({start}, key);
    Stepping how = stepping(options, key.round);
    how.rule = rule;
    losses = take(plan, CrossEntropy(options, rule.head_only), how, nullptr);
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
  if (!rule.head_only) {
    const std::int64_t samples = set.size() * options.epochs;
    steps_ += outcome.steps;
    loss_ += {outcome.mean_loss * static_cast<double>(samples), samples};
  }
  return outcome;
}

}  // namespace winnow

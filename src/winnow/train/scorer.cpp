#include "winnow/train/scorer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/train/loss.h"

namespace winnow {

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

void Scorer::load(const State& state) {
  (*nets_)[0].state.flat.copy_(state.flat);
}

at::Tensor Scorer::output(const at::Tensor& images) {
  const c10::NoGradGuard no_gradient;
  passes_.forward += images.size(0);
  return (*nets_)[0].net->forward(images.to(nets_->device()), Pass{});
}

void Scorer::each_input(const Feed& feed, std::span<const std::int64_t> samples, std::int64_t batch,
                        const Jitter& jitter,
                        const std::function<void(const at::Tensor& images)>& visit) {
  const c10::NoGradGuard no_gradient;
  const at::Tensor index = index_tensor(samples, feed.device());
  const at::Tensor moves = jitter.defined() ? jitter.to(feed.device()) : jitter;
  for (std::int64_t start = 0; start < index.size(0); start += batch) {
    nets_->check_stop();
    const std::int64_t size = std::min(batch, index.size(0) - start);
    passes_.forward += size;
    visit(feed.batch(index.narrow(0, start, size),
                     moves.defined() ? moves.narrow(0, start, size) : moves, nets_->input()));
  }
}

void Scorer::each_batch(const Feed& feed, std::span<const std::int64_t> samples, std::int64_t batch,
                        const Jitter& jitter, bool training, const Visit& visit,
                        std::size_t model) {
  const Pass pass{.training = training, .dropout = &nets_->dropout()};
  const Net& net = *(*nets_)[model].net;
  each_input(feed, samples, batch, jitter, [&](const at::Tensor& images) {
    const at::Tensor features = net.features(images, pass);
    visit(features, net.logits(features));
  });
}

void Scorer::each_gradient(std::span<const std::int64_t> samples, std::int64_t batch, bool training,
                           const std::string& parameter, const BatchLoss& loss,
                           const std::function<void(const at::Tensor& gradient)>& visit) {
  const Slot* slot = nets_->layout()->find(parameter);
  if (slot == nullptr || slot->kind != SlotKind::parameter) {
    throw Error(ErrorKind::experiment,
                fmt::format("the network has no parameter named '{}'", parameter));
  }
  Nets::Replica& replica = (*nets_)[0];
  const at::Tensor gradient =
      replica.gradient.narrow(0, slot->offset, slot->size).view(slot->shape);
  const at::Tensor index = index_tensor(samples, nets_->device());
  const Pass pass{.training = training, .dropout = &nets_->dropout()};
  for (std::int64_t start = 0; start < index.size(0); start += batch) {
    nets_->check_stop();
    const std::int64_t size = std::min(batch, index.size(0) - start);
    replica.gradient.zero_();
    passes_ += {.forward = size, .backward = size};
    const at::Tensor images = nets_->feed().batch(index.narrow(0, start, size), {}, nets_->input());
    torch::autograd::backward({loss(replica.net->forward(images, pass), start)}, {});
    visit(gradient);
  }
  replica.gradient.zero_();
}

at::Tensor Scorer::logits(const Feed& feed, std::span<const std::int64_t> samples,
                          std::int64_t batch, const Jitter& jitter, std::size_t model) {
  std::vector<at::Tensor> parts;
  const Net& net = *(*nets_)[model].net;
  each_input(feed, samples, batch, jitter,
             [&](const at::Tensor& images) { parts.push_back(net.forward(images, Pass{})); });
  return parts.empty() ? at::Tensor() : at::cat(parts);
}

Score Scorer::score(const Feed& feed, const LocalSet& set, std::int64_t batch) {
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

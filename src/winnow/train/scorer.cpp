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
  classes.resize(std::max(classes.size(), other.classes.size()));
  for (std::size_t c = 0; c < other.classes.size(); ++c) {
    classes[c].labelled += other.classes[c].labelled;
    classes[c].predicted += other.classes[c].predicted;
    classes[c].right += other.classes[c].right;
  }
  return *this;
}

MacroScore Score::macro() const {
  const auto share = [](double of, double whole) { return whole == 0.0 ? 0.0 : of / whole; };
  MacroScore sum;
  double seen = 0.0;
  for (const ClassCount& one : classes) {
    if (one.labelled + one.predicted == 0) {
      continue;
    }
    const auto right = static_cast<double>(one.right);
    const auto labelled = static_cast<double>(one.labelled);
    const auto predicted = static_cast<double>(one.predicted);
    ++seen;
    sum.precision += share(right, predicted);
    sum.recall += share(right, labelled);
    sum.f1 += share(2.0 * right, labelled + predicted);
  }
  return {share(sum.precision, seen), share(sum.recall, seen), share(sum.f1, seen)};
}

std::vector<ClassCount> count_classes(std::span<const std::int64_t> labels,
                                      std::span<const std::int64_t> predicted,
                                      std::int64_t classes) {
  std::vector<ClassCount> counts(static_cast<std::size_t>(classes));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]);
    const auto said = static_cast<std::size_t>(predicted[i]);
    ++counts[label].labelled;
    ++counts[said].predicted;
    counts[label].right += label == said ? 1 : 0;
  }
  return counts;
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
  const at::Tensor said = outputs.argmax(1).cpu().contiguous();
  Score score;
  score.classes = count_classes(
      set.labels, {said.data_ptr<std::int64_t>(), static_cast<std::size_t>(said.numel())},
      outputs.size(1));
  for (const ClassCount& one : score.classes) {
    score.correct += one.right;
  }
  score.count = set.size();
  score.loss_sum = losses(outputs, labels).sum(at::kDouble).item<double>();
  score.among_five = count_among_five(outputs, labels);
  return score;
}

}  // namespace winnow

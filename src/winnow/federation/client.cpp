#include "winnow/federation/client.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/random.h"

namespace winnow {

const Feed& ClientContext::public_feed() const {
  if (public_feed_ == nullptr) {
    throw Error(ErrorKind::internal, "there are no public images");
  }
  return *public_feed_;
}

void ClientContext::remember(const std::string& name, at::Tensor tensor) {
  archive_->tensors[name] = std::move(tensor);
}

at::Tensor ClientContext::recall(const std::string& name, const at::Tensor& otherwise) const {
  const auto found = archive_->tensors.find(name);
  return found == archive_->tensors.end() ? otherwise : found->second;
}

void ClientContext::take_steps(const Plan& plan, const Objective& objective, const Stepping& how) {
  if (plan.batches.empty()) {
    return;
  }
  // Reading the losses waits for the device: the lane's buffers may change afterwards.
  minimised(plan, lane_.run(plan, objective, how));
  steps_ += static_cast<std::int64_t>(plan.batches.size() * how.models.size());
}

State ClientContext::finished_model(std::size_t number) const {
  State model = lane_.model(number);
  wait_for(lane_.feed().device());
  return model;
}

State ClientContext::train_by(const Objective& objective, const State& start, std::int64_t round) {
  if (size() == 0) {
    return start.clone();
  }
  const Plan plan = make_plan(local_set(), options_, lane_.augment(), key(round));
  lane_.begin({start}, key(round));
  take_steps(plan, objective, stepping(options_, round));
  return finished_model();
}

at::Tensor ClientContext::logits(const State& model, std::int64_t batch, const Jitter& view) {
  lane_.load(model);
  return lane_.logits(lane_.feed(), data_.samples, batch, view);
}

Score ClientContext::score(const State& model, const LocalSet& set) {
  lane_.load(model);
  return lane_.score(lane_.feed(), set, options_.eval_batch);
}

ClientContext::Seen ClientContext::features() {
  std::vector<at::Tensor> features;
  std::vector<at::Tensor> logits;
  lane_.each_batch(lane_.feed(), data_.samples, options_.eval_batch, {}, false,
                   [&](const at::Tensor& seen, const at::Tensor& said) {
                     features.push_back(seen);
                     logits.push_back(said);
                   });
  return {at::cat(features), at::cat(logits)};
}

Jitter ClientContext::draw_view(std::string_view purpose, std::int64_t round) const {
  if (!lane_.augment()) {
    return {};
  }
  return draw_jitter(
      size(),
      stream_key(seed_, purpose,
                 {static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(id_)}),
      lane_.augment().places);
}

void ClientContext::minimised(const Plan& plan, const at::Tensor& losses) {
  const at::Tensor values = losses.to(at::kDouble).cpu().contiguous();
  for (std::size_t step = 0; step < plan.batches.size(); ++step) {
    const std::int64_t samples = plan.batches[step].size;
    loss_ += {values.data_ptr<double>()[step] * static_cast<double>(samples), samples};
  }
}

at::Tensor ClientContext::labels_tensor() const {
  const LocalSet set = local_set();
  at::Tensor labels = at::empty({set.size()}, at::kLong);
  std::ranges::copy(set.labels, labels.data_ptr<std::int64_t>());
  return labels.to(lane_.feed().device());
}

}  // namespace winnow

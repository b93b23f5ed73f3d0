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

State ClientContext::train_by(const Objective& objective, const State& start, std::int64_t round) {
  if (size() == 0) {
    return start.clone();
  }
  const Plan plan = make_plan(local_set(), options_, augment(), key(round));
  trainer().begin({start}, key(round));
  trainer().take_steps(plan, objective, stepping(options_, round));
  return trainer().finished_model();
}

at::Tensor ClientContext::logits(const State& model, std::int64_t batch, const Jitter& view) {
  scorer().load(model);
  return scorer().logits(feed(), data_.samples, batch, view);
}

Score ClientContext::score(const State& model, const LocalSet& set) {
  scorer().load(model);
  return scorer().score(feed(), set, options_.eval_batch);
}

ClientContext::Seen ClientContext::features() {
  std::vector<at::Tensor> features;
  std::vector<at::Tensor> logits;
  scorer().each_batch(feed(), data_.samples, options_.eval_batch, {}, false,
                      [&](const at::Tensor& seen, const at::Tensor& said) {
                        features.push_back(seen);
                        logits.push_back(said);
                      });
  return {at::cat(features), at::cat(logits)};
}

Jitter ClientContext::draw_view(std::string_view purpose, std::int64_t round) const {
  if (!augment()) {
    return {};
  }
  return draw_jitter(
      size(),
      stream_key(seed_, purpose,
                 {static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(id_)}),
      augment().places);
}

at::Tensor ClientContext::labels_tensor() const {
  const LocalSet set = local_set();
  at::Tensor labels = at::empty({set.size()}, at::kLong);
  std::ranges::copy(set.labels, labels.data_ptr<std::int64_t>());
  return labels.to(feed().device());
}

}  // namespace winnow

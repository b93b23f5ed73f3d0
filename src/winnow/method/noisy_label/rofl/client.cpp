#include "winnow/method/noisy_label/rofl/client.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/method/local_training.h"
#include "winnow/method/noisy_label/rofl/objective.h"

namespace winnow::rofl {
namespace {

// `seen` is what the received model makes of the local samples.
at::Tensor first_centroids(const std::vector<float>& received, const ClientContext::Seen& seen,
                           const ClientContext& context) {
  const std::int64_t classes = seen.logits.size(1);
  if (received.empty()) {
    return class_means(seen.features, context.labels_tensor(), classes);
  }
  const std::int64_t width = seen.features.size(1);
  if (std::ssize(received) != classes * width) {
    throw Error(ErrorKind::peer,
                fmt::format("message 'train' holds {} centroid values, expected {} classes of {}",
                            received.size(), classes, width));
  }
  return at::tensor(received).view({classes, width});
}

std::vector<bool> kept_in_last_epoch(const Objective& objective, const Plan& plan,
                                     std::int64_t samples) {
  const std::int64_t first = plan.entries() - samples;
  const at::Tensor kept = objective.kept().narrow(0, first, samples).cpu();
  const at::Tensor places = plan.place.narrow(0, first, samples);
  std::vector<bool> selected(static_cast<std::size_t>(samples));
  for (std::int64_t i = 0; i < samples; ++i) {
    selected[static_cast<std::size_t>(places.data_ptr<std::int64_t>()[i])] =
        kept.data_ptr<std::uint8_t>()[i] != 0;
  }
  return selected;
}

}  // namespace

Message Client::handle(const Message& task, ClientContext& context) const {
  const std::int64_t round = round_of(task);
  const State& received = task.get<State>("model");
  TrainOptions& options = context.options();
  options.mixup = 0.0;
  Trainer& trainer = context.trainer();
  const TrainKey key = context.key(round);
  trainer.begin({received}, key);
  const ClientContext::Seen seen = context.features();
  const Plan plan = make_plan(context.local_set(), options, context.augment(), key);
  const Objective objective(
      options_, round, plan, seen.logits.argmax(1),
      first_centroids(task.get<std::vector<float>>("centroids"), seen, context), trainer);
  trainer.take_steps(plan, objective, stepping(options, round));
  context.trace().selected = kept_in_last_epoch(objective, plan, context.size());
  const at::Tensor centroids = objective.centroids().cpu().contiguous();
  const auto* values = centroids.data_ptr<float>();
  return train_done(trainer.finished_model(), context)
      .set("centroids", std::vector<float>(values, values + centroids.numel()));
}

}  // namespace winnow::rofl

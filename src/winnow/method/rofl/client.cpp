#include "winnow/method/rofl/client.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/method/local_training.h"
#include "winnow/method/rofl/objective.h"

namespace winnow::rofl {
namespace {

// What the received model makes of the local samples.
struct View {
  at::Tensor features;  // [samples, width]
  at::Tensor labels;    // the most probable class of each
  std::int64_t classes = 0;
};

View look(ClientContext& context) {
  std::vector<at::Tensor> features;
  std::vector<at::Tensor> labels;
  View view;
  Lane& lane = context.lane();
  lane.each_batch(lane.feed(), context.local_set().samples, context.options().eval_batch, {}, false,
                  [&](const at::Tensor& seen, const at::Tensor& logits) {
                    features.push_back(seen);
                    labels.push_back(logits.argmax(1));
                    view.classes = logits.size(1);
                  });
  view.features = at::cat(features);
  view.labels = at::cat(labels);
  return view;
}

at::Tensor first_centroids(const std::vector<float>& received, const View& view,
                           const ClientContext& context) {
  if (received.empty()) {
    return class_means(view.features, context.labels_tensor(), view.classes);
  }
  const std::int64_t width = view.features.size(1);
  if (std::ssize(received) != view.classes * width) {
    throw Error(ErrorKind::peer,
                fmt::format("message 'train' holds {} centroid values, expected {} classes of {}",
                            received.size(), view.classes, width));
  }
  return at::tensor(received).view({view.classes, width});
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
  Lane& lane = context.lane();
  const TrainKey key = train_key(context, round);
  lane.begin({received}, key);
  const View view = look(context);
  const Plan plan = make_plan(context.local_set(), options, lane.augment(), key);
  const Objective objective(
      options_, round, plan, view.labels,
      first_centroids(task.get<std::vector<float>>("centroids"), view, context), lane);
  take_steps(plan, objective, stepping(options, round), context);
  context.memory().selected = kept_in_last_epoch(objective, plan, context.size());
  const at::Tensor centroids = objective.centroids().cpu().contiguous();
  const auto* values = centroids.data_ptr<float>();
  return train_done(finished_model(lane), context)
      .set("centroids", std::vector<float>(values, values + centroids.numel()));
}

}  // namespace winnow::rofl

#include "winnow/method/audit/audit/client.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/method/audit/audit/judging.h"
#include "winnow/method/audit/audit/letters.h"
#include "winnow/method/audit/audit/rows.h"
#include "winnow/method/local_training.h"

namespace winnow::audit {
namespace {

constexpr const char* kProbabilities = "p";
constexpr const char* kDistances = "distance";

// The client's own images, one after the other, with their statistics.
struct OwnImages {
  explicit OwnImages(const ClientContext& context, const Feed& feed) {
    const LocalSet set = context.local_set();
    at::Tensor index = at::empty({std::ssize(set.samples)}, at::kLong);
    std::ranges::copy(set.samples, index.data_ptr<std::int64_t>());
    images = feed.images().index_select(0, index.to(feed.device())).cpu().contiguous();
    for (std::int64_t i = 0; i < images.size(0); ++i) {
      stats.push_back(image_stats(at(static_cast<std::size_t>(i))));
    }
  }
  ImageBytes at(std::size_t number) const {
    return image_at({images.data_ptr<std::uint8_t>(), static_cast<std::size_t>(images.numel())},
                    images.size(1), images.size(2), images.size(3), number);
  }

  at::Tensor images;
  std::vector<ImageStats> stats;
};

std::vector<std::int64_t> labels_of(const ClientContext& context) {
  const LocalSet set = context.local_set();
  return {set.labels.begin(), set.labels.end()};
}

template <typename T>
std::span<const T> values_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

// Which samples are judged: those of classes that the model knows and the client has enough of.
std::vector<bool> judged_of(std::span<const std::int64_t> given, const std::vector<bool>& known,
                            std::int64_t least) {
  const std::vector<std::int64_t> held = count_labels(given, std::ssize(known));
  std::vector<bool> judged;
  for (const std::int64_t label : given) {
    const auto at = static_cast<std::size_t>(label);
    judged.push_back(known[at] && held[at] >= least);
  }
  return judged;
}

[[noreturn]] void refuse_order(const std::string& task) {
  throw Error(ErrorKind::peer, "the server asks for '" + task + "' before what comes before it");
}

}  // namespace

Message Client::handle(const Message& task, ClientContext& context) const {
  if (task.kind() == "train") {
    return train(task, context);
  }
  if (task.kind() == "sums") {
    return sums(task, context);
  }
  return task.kind() == "counts" ? counts(task, context) : close(task, context);
}

void Client::check_memory(ClientContext& context) const {
  const Archive& archive = context.archive();
  const std::int64_t classes = context.classes();
  archive.tensor(kProbabilities, at::kFloat, {context.size(), classes});
  archive.tensor(kDistances, at::kDouble, {context.size()});
  read_kept(archive, context.size(), classes);
}

// A draw is keyed by the fold's own seed, and by the number that the client has among those who
// train for it, as in a federation of these clients alone.
Message Client::train(const Message& task, ClientContext& context) const {
  TrainOptions& options = context.options();
  options.label_smoothing = options_.label_smoothing;
  TrainOutcome outcome = context.trainer().train(
      task.get<State>("model"), context.local_set(), options, {},
      {fold_seed(context.seed(), task.get<std::uint32_t>("fold")), round_of(task),
       static_cast<std::int64_t>(task.get<std::uint32_t>("place"))});
  return train_done(std::move(outcome.state), context);
}

Message Client::sums(const Message& task, ClientContext& context) const {
  const std::int64_t classes = context.classes();
  context.scorer().load(task.get<State>("model"));
  const ClientContext::Seen seen = context.features();
  const Said said = said_of(seen.features, seen.logits);
  const std::vector<double> distances = neighbour_distances(said.features);
  const OwnImages images(context, context.feed());
  const std::vector<std::int64_t> given = labels_of(context);
  const OwnSamples own{
      .classes = classes,
      .given = given,
      .p = values_of<float>(said.p),
      .distance = distances,
      .stats = images.stats,
      .judged = judged_of(given, std::vector<bool>(static_cast<std::size_t>(classes), true),
                          options_.least)};
  const FirstSums sums = first_sums(own, said.gradient_norms, options_.least);
  context.remember(kProbabilities, said.p);
  context.remember(kDistances, at::tensor(distances, at::kDouble));
  context.forget(kRowsName);
  context.archive().values.erase(kOutcomeName);
  return write_first(sums);
}

Message Client::counts(const Message& task, ClientContext& context) const {
  const at::Tensor p = context.recall(kProbabilities);
  const at::Tensor distances = context.recall(kDistances);
  if (!p.defined() || !distances.defined()) {
    refuse_order(task.kind());
  }
  const ToldClient told = read_told(task);
  const OwnImages images(context, context.feed());
  const std::vector<std::int64_t> given = labels_of(context);
  const OwnSamples own{.classes = context.classes(),
                       .given = given,
                       .p = values_of<float>(p),
                       .distance = values_of<double>(distances),
                       .stats = images.stats,
                       .image = [&](std::size_t place) { return images.at(place); },
                       .judged = judged_of(given, told.known, options_.least)};
  std::vector<SampleFinding> found;
  const SecondSums sums = second_sums(own, told.told, options_.least, found);
  context.forget(kProbabilities);
  context.forget(kDistances);
  context.remember(kRowsName, rows_of(found));
  return write_second(sums);
}

Message Client::close(const Message& task, ClientContext& context) {
  Kept kept = read_kept(context.archive(), context.size(), context.classes());
  if (kept.found.empty()) {
    refuse_order(task.kind());
  }
  const Outcome outcome = read_outcome(task);
  const std::vector<std::int64_t> given = labels_of(context);
  flag_labels(given, outcome.bars, kept.found);
  std::vector<bool> suspected;
  std::uint32_t inputs = 0;
  for (const SampleFinding& sample : kept.found) {
    suspected.push_back(sample.is_label_issue);
    inputs += sample.is_input_noise_issue ? 1 : 0;
  }
  const auto labels = static_cast<std::uint32_t>(std::ranges::count(suspected, true));
  context.remember(kRowsName, rows_of(kept.found));
  context.archive().values[kOutcomeName] = outcome_json(outcome);
  context.trace().suspected = std::move(suspected);
  return Message("close_done").set("label_issues", labels).set("input_issues", inputs);
}

}  // namespace winnow::audit

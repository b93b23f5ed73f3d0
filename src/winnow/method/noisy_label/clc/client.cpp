#include "winnow/method/noisy_label/clc/client.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/method/clean_set.h"

namespace winnow::clc {
namespace {

constexpr const char* kModel = "clc.model";
constexpr const char* kProbabilities = "probabilities";

std::span<const double> values_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<double>(), static_cast<std::size_t>(tensor.numel())};
}

void forget(ClientContext& context) {
  context.forget(kModel);
  context.forget(kProbabilities);
}

std::vector<bool> kept(const std::vector<Verdict>& verdicts) {
  std::vector<bool> mask;
  for (const Verdict& verdict : verdicts) {
    mask.push_back(!verdict.held_out);
  }
  return mask;
}

}  // namespace

Client::Client(Options options, std::unique_ptr<ClientSide> base)
    : options_(options), base_(std::move(base)) {}

Message Client::handle(const Message& task, ClientContext& context) const {
  if (task.kind() == "confidence") {
    return tell_confidence(task, context);
  }
  if (task.kind() == "train_kept") {
    return train_kept(task, context);
  }
  if (task.kind() == "correct") {
    return correct(task, context);
  }
  context.trace().selected.reset();  // everything is trained on
  return context.as_base([&](ClientContext& base) { return base_->handle(task, base); });
}

Message Client::tell_confidence(const Message& task, ClientContext& context) {
  const auto& model = task.get<State>("model");
  const LocalSet set = context.local_set();
  const at::Tensor probabilities = context.logits(model, context.options().eval_batch)
                                       .to(at::kDouble)
                                       .softmax(1)
                                       .cpu()
                                       .contiguous();
  const ClassConfidence own = class_confidence(values_of(probabilities), set.labels,
                                               static_cast<std::size_t>(probabilities.size(1)));
  forget(context);
  // With other values the server asks no further, and nothing must be left behind.
  if (probabilities.isfinite().all().item<bool>()) {
    context.remember(kModel, model.flat);
    context.remember(kProbabilities, probabilities);
  }
  return Message("confidence_done").set("mean", own.mean).set("count", own.count);
}

std::vector<Verdict> Client::verdicts(const Message& task, const ClientContext& context) const {
  const at::Tensor probabilities = context.recall(kProbabilities);
  if (!probabilities.defined()) {
    throw Error(ErrorKind::peer,
                fmt::format("client {} was sent '{}' without 'confidence' before it", context.id(),
                            task.kind()));
  }
  const auto& confidence = task.get<std::vector<double>>("confidence");
  const auto classes = static_cast<std::size_t>(probabilities.size(1));
  if (confidence.size() != classes) {
    throw Error(ErrorKind::peer, fmt::format("message '{}' holds {} confidences, expected {}",
                                             task.kind(), confidence.size(), classes));
  }
  return judge_all(values_of(probabilities), context.local_set().labels, confidence, options_.tau);
}

Message Client::train_kept(const Message& task, ClientContext& context) const {
  std::vector<bool> mask = kept(verdicts(task, context));
  const Subset set(context.local_set(), mask);
  const State start{context.layout(), context.recall(kModel)};
  TrainOutcome outcome = context.train(start, set.set(), round_of(task), {});
  context.trace().selected = std::move(mask);
  forget(context);
  return Message("train_kept_done")
      .set("model", std::move(outcome.state))
      .set("samples", static_cast<std::uint32_t>(set.set().size()));
}

Message Client::correct(const Message& task, ClientContext& context) const {
  const LocalSet set = context.local_set();
  std::vector<std::int64_t> labels(set.labels.begin(), set.labels.end());
  const std::int64_t changed =
      relabel(labels, verdicts(task, context), options_.relabel == Relabel::held_out);
  if (changed > 0) {
    context.trace().labels = std::move(labels);
  }
  context.trace().selected.reset();
  forget(context);
  return Message("correct_done").set("relabelled", static_cast<std::uint32_t>(changed));
}

}  // namespace winnow::clc

#include "winnow/method/system/fedrn/client.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "winnow/base/error.h"
#include "winnow/base/random.h"
#include "winnow/federation/aggregation.h"
#include "winnow/method/clean_set.h"
#include "winnow/train/loss.h"

namespace winnow::fedrn {
namespace {

constexpr const char* kLocal = "local";

// The model that judges the client's own samples: its last local one, however old, not the global
// (spec: label-noise B.4 #7).
State own_model(const State& received, const ClientContext& context) {
  return {received.layout, context.recall(kLocal, received.flat)};
}

// A model that diverged cannot judge samples, so it is not kept. On the host, so that any number of
// clients fits beside a GPU.
void remember(const State& local, ClientContext& context) {
  if (all_finite(local)) {
    context.remember(kLocal, local.flat.cpu());
  } else {
    context.forget(kLocal);
  }
}

}  // namespace

at::Tensor noise_input(std::uint64_t seed, const std::vector<std::int64_t>& shape) {
  at::Tensor input = at::empty({1, shape.at(0), shape.at(1), shape.at(2)}, at::kFloat);
  Stream stream(seed, "fedrn noise input");
  auto* values = input.data_ptr<float>();
  for (std::int64_t i = 0; i < input.numel(); ++i) {
    values[i] = static_cast<float>(stream.normal());
  }
  return input;
}

State finetune_head(const State& neighbour, const LocalSet& set, std::int64_t epochs,
                    std::int64_t round, ClientContext& context) {
  TrainOptions options = context.options();
  options.epochs = epochs;
  const TrainKey key{stream_key(context.seed(), "fedrn finetune", {}), round, context.id()};
  return context.trainer().train(neighbour, set, options, {.head_only = true}, key).state;
}

Message Client::handle(const Message& task, ClientContext& context) const {
  const std::int64_t round = round_of(task);
  const State& received = task.get<State>("model");
  Trace& trace = context.trace();
  State local;
  if (task.kind() == "warmup") {
    trace.selected.reset();
    local = context.train(received, round, {}).state;
  } else {
    trace.selected = find_clean(task, round, context);
    const Subset clean(context.local_set(), *trace.selected);
    local = context.train(received, clean.set(), round, {}).state;
  }
  remember(local, context);
  return report(local, round, context);
}

void Client::check_memory(ClientContext& context) const {
  context.archive().tensor(kLocal, at::kFloat, {context.layout()->total()});
}

std::vector<bool> Client::find_clean(const Message& task, std::int64_t round,
                                     ClientContext& context) const {
  const auto& neighbours = task.get<std::vector<State>>("neighbours");
  const auto& reliability = task.get<std::vector<double>>("reliability");
  if (reliability.size() != neighbours.size() + 1) {
    throw Error(ErrorKind::peer,
                fmt::format("message 'robust' holds {} neighbours and {} reliabilities, expected "
                            "one reliability more than neighbours",
                            neighbours.size(), reliability.size()));
  }
  const auto& received = task.get<State>("model");
  const State own = options_.own_model == OwnModel::last ? own_model(received, context) : received;
  std::vector<std::vector<double>> votes{vote(own, 0, round, context)};
  const Subset aux(context.local_set(), clean_mask(votes.front(), options_.threshold));
  for (std::size_t j = 0; j < neighbours.size(); ++j) {
    const State model = options_.finetune ? finetune_head(neighbours[j], aux.set(),
                                                          options_.finetune_epochs, round, context)
                                          : neighbours[j];
    votes.push_back(vote(model, j + 1, round, context));
  }
  return clean_mask(joint_probability(votes, vote_weights(reliability)), options_.threshold);
}

std::vector<double> Client::vote(const State& model, std::size_t voter, std::int64_t round,
                                 ClientContext& context) const {
  if (context.size() == 0) {
    return {};
  }
  const at::Tensor outputs = logits(model, fmt::format("fedrn score {}", voter), round, context);
  const at::Tensor values =
      losses(outputs, context.labels_tensor()).to(at::kDouble).cpu().contiguous();
  const auto* first = values.data_ptr<double>();
  return clean_probability({first, first + values.numel()});
}

at::Tensor Client::logits(const State& model, const std::string& purpose, std::int64_t round,
                          ClientContext& context) const {
  return context.logits(model, options_.score_batch,
                        context.view(options_.score_view, purpose, round));
}

Message Client::report(const State& local, std::int64_t round, ClientContext& context) const {
  double accuracy = 0.0;
  if (context.size() > 0) {
    const at::Tensor right =
        logits(local, "fedrn expertise", round, context).argmax(1).eq(context.labels_tensor());
    accuracy = right.sum().item<double>() / static_cast<double>(context.size());
  }
  Scorer& scorer = context.scorer();
  scorer.load(local);
  const at::Tensor output =
      scorer.output(noise_input(context.seed(), context.input_shape())).cpu().contiguous();
  const auto* first = output.data_ptr<float>();
  return Message("local_done")
      .set("model", local)
      .set("samples", static_cast<std::uint32_t>(context.size()))
      .set("accuracy", accuracy)
      .set("output", std::vector<float>(first, first + output.numel()));
}

}  // namespace winnow::fedrn

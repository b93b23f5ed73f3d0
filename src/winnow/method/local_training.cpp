#include "winnow/method/local_training.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "winnow/base/error.h"

namespace winnow {

Stepping stepping(const TrainOptions& options, std::int64_t round,
                  std::vector<std::size_t> models) {
  return {.lr = lr_in(options, round),
          .momentum = options.momentum,
          .weight_decay = options.weight_decay,
          .models = std::move(models)};
}

TrainKey train_key(const ClientContext& context, std::int64_t round) {
  return {.seed = context.seed(), .round = round, .client = context.id()};
}

at::Tensor fill(Lane& lane, const std::string& name, const at::Tensor& rows) {
  at::Tensor buffer =
      lane.buffer(name, rows.size(0), rows.sizes().slice(1).vec(), rows.scalar_type());
  buffer.narrow(0, 0, rows.size(0)).copy_(rows);
  return buffer;
}

void take_steps(const Plan& plan, const Objective& objective, const Stepping& how,
                ClientContext& context) {
  if (plan.batches.empty()) {
    return;
  }
  context.lane().run(plan, objective, how);
  wait_for(context.lane().feed().device());  // before the lane's buffers may change
  context.took(static_cast<std::int64_t>(plan.batches.size() * how.models.size()));
}

State finished_model(const Lane& lane, std::size_t number) {
  State model = lane.model(number);
  wait_for(lane.feed().device());
  return model;
}

State train_by(const Objective& objective, const State& start, std::int64_t round,
               ClientContext& context) {
  if (context.size() == 0) {
    return start.clone();
  }
  Lane& lane = context.lane();
  const TrainKey key = train_key(context, round);
  const Plan plan = make_plan(context.local_set(), context.options(), lane.augment(), key);
  lane.begin({start}, key);
  take_steps(plan, objective, stepping(context.options(), round), context);
  return finished_model(lane);
}

Plan without(const Plan& plan, const std::vector<bool>& dropped) {
  Plan rest;
  rest.views = plan.views;
  std::vector<at::Tensor> kept;
  std::int64_t next = 0;
  for (std::size_t i = 0; i < plan.batches.size(); ++i) {
    if (dropped[i]) {
      continue;
    }
    Plan::Batch batch = plan.batches[i];
    kept.push_back(at::arange(batch.start, batch.start + batch.size));
    batch.start = next;
    next += batch.size;
    rest.batches.push_back(batch);
  }
  const at::Tensor entries = kept.empty() ? at::empty({0}, at::kLong) : at::cat(kept);
  rest.index = plan.index.index_select(0, entries);
  rest.place = plan.place.index_select(0, entries);
  rest.label = plan.label.index_select(0, entries);
  if (plan.jitter.defined()) {
    rest.jitter =
        plan.jitter.view({plan.views, plan.entries(), 3}).index_select(1, entries).reshape({-1, 3});
  }
  return rest;
}

Message train_done(State model, const ClientContext& context) {
  return Message("train_done")
      .set("model", std::move(model))
      .set("samples", static_cast<std::uint32_t>(context.size()));
}

void check_warmup(std::int64_t warmup, const Setting& setting) {
  if (warmup >= setting.rounds) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.warmup = {}: expected fewer than the {} rounds of the run",
                            warmup, setting.rounds),
                "a run that ends with its warm-up trusts all labels");
  }
}

at::Tensor recall(const ClientMemory& memory, const std::string& name,
                  const at::Tensor& otherwise) {
  const auto found = memory.archive.tensors.find(name);
  return found == memory.archive.tensors.end() ? otherwise : found->second;
}

at::Tensor first_rows(const at::Tensor& buffer, std::int64_t count) {
  return buffer.narrow(0, 0, count).to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace winnow

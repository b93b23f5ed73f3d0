#include "winnow/method/local_training.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "winnow/base/error.h"

namespace winnow {

at::Tensor fill(Trainer& trainer, const std::string& name, const at::Tensor& rows) {
  at::Tensor buffer =
      trainer.buffer(name, rows.size(0), rows.sizes().slice(1).vec(), rows.scalar_type());
  buffer.narrow(0, 0, rows.size(0)).copy_(rows);
  return buffer;
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

void check_pairs(const std::string& method, const Setting& setting) {
  if (setting.classes > kMostPairedClasses) {
    throw Error(ErrorKind::experiment,
                fmt::format("method {}: {} classes are more than {}, the most whose pairs it can "
                            "compare",
                            method, setting.classes, kMostPairedClasses));
  }
}

at::Tensor first_rows(const at::Tensor& buffer, std::int64_t count) {
  return buffer.narrow(0, 0, count).to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace winnow

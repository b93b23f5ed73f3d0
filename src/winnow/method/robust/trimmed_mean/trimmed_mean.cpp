#include "winnow/method/robust/trimmed_mean/trimmed_mean.h"

#include <fmt/format.h>

#include "winnow/base/error.h"

namespace winnow {

std::int64_t trimmed_per_end(double trim, std::int64_t count) {
  return static_cast<std::int64_t>(trim * static_cast<double>(count) + 1e-9);
}

void TrimmedMean::declare(Params& params) {
  params
      .add("trim", trim_,
           "share of the clients' values that is dropped at each end of a coordinate")
      .range(0.0, 0.5)
      .source("spec: baselines 9, FedNS's code");
}

// spec: baselines 9
void TrimmedMean::check_models(const ModelCount& count) const {
  const std::int64_t per_end = trimmed_per_end(trim_, count.models);
  if (2 * per_end >= count.models) {
    throw Error(ErrorKind::experiment,
                fmt::format("{}: {} drops {} of {} models at each end, which leaves none",
                            count.said, count.who, per_end, count.models),
                fmt::format("{} or lower trim", count.cure));
  }
}

void TrimmedMean::add(Round& /*round*/, const Upload& upload) {
  if (upload.factor > 0.0) {
    held_.add(upload.client, upload.model(), upload.factor, upload.samples);
  }
}

bool TrimmedMean::can_finish() const {
  return 2 * trimmed_per_end(trim_, held_.size()) < held_.size();
}

State TrimmedMean::finish(Round& /*round*/) {
  const HeldModels held = held_.take();
  const std::int64_t per_end = trimmed_per_end(trim_, held.size());
  if (2 * per_end >= held.size()) {
    throw Error(ErrorKind::run,
                fmt::format("trim = {} drops {} of {} models at each end, which leaves none", trim_,
                            per_end, held.size()),
                "lower trim or raise federation.fraction");
  }
  State next = trimmed_mean(held.models(), held.weights(), per_end);
  average_counters(held.models(), held.samples(), next);  // spec: baselines 0.1
  return next.to(held.device());
}

MethodInfo trimmed_mean_info() {
  return {"trimmed_mean", "robust aggregation",
          "mean of every coordinate without its extreme values",
          [] { return std::make_unique<TrimmedMean>(); }};
}

}  // namespace winnow

#include "winnow/method/trimmed_mean/trimmed_mean.h"

#include <fmt/format.h>

#include "winnow/base/error.h"

namespace winnow {

std::int64_t trimmed_per_end(double trim, std::int64_t count) {
  return static_cast<std::int64_t>(trim * static_cast<double>(count) + 1e-9);
}

void TrimmedMean::declare(Params& params) {
  params.add("trim", trim_, "share of the clients' values dropped at each end")
      .range(0.0, 0.5)
      .source("spec baselines 9, FedNS's code");
}

void TrimmedMean::add(const Upload& upload) {
  if (upload.factor > 0.0) {
    held_.add(upload.client, upload.model(), upload.factor);
  }
}

State TrimmedMean::finish() {
  const HeldModels held = held_.take();
  const std::int64_t per_end = trimmed_per_end(trim_, held.size());
  if (2 * per_end >= held.size()) {
    throw Error(ErrorKind::run,
                fmt::format("trim = {} drops {} of {} models at each end, which leaves none", trim_,
                            per_end, held.size()),
                "lower trim or raise federation.fraction");
  }
  return trimmed_mean(held.models(), held.weights(), per_end).to(held.device());
}

MethodInfo trimmed_mean_info() {
  return {"trimmed_mean", "robust aggregation",
          "mean of every coordinate without its smallest and largest values",
          [] { return std::make_unique<TrimmedMean>(); }};
}

}  // namespace winnow

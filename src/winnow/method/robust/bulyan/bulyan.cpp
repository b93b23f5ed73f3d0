#include "winnow/method/robust/bulyan/bulyan.h"

#include <fmt/format.h>

#include "winnow/base/error.h"
#include "winnow/federation/robust/robust_distance.h"

namespace winnow {

void Bulyan::declare(Params& params) {
  params
      .add("byzantine", byzantine_,
           "number of bad models expected in a round (f), which needs 4 f + 3 models")
      .at_least(0)
      .source("ours: the least that makes a difference to the mean");
}

// spec: baselines 12
void Bulyan::check_models(const ModelCount& count) const {
  if (count.models < fewest()) {
    throw Error(ErrorKind::experiment,
                fmt::format("{}: expected at least the {} models that {} needs", count.said,
                            fewest(), count.who),
                fmt::format("{} or lower byzantine", count.cure));
  }
}

State Bulyan::finish(Round& round) {
  const HeldModels held = held_.take();
  if (held.size() < fewest()) {
    throw Error(
        ErrorKind::run,
        fmt::format("bulyan needs {} models to withstand byzantine = {} bad ones, and got {}",
                    fewest(), byzantine_, held.size()),
        "raise federation.fraction or lower byzantine");
  }
  const std::vector<std::int64_t> places =
      bulyan_selection(squared_distances(held.models()), byzantine_);
  round.notes["selected"] = held.clients_at(places);
  std::vector<State> models;
  std::vector<double> samples;
  for (const std::int64_t place : places) {
    models.push_back(held.models()[static_cast<std::size_t>(place)]);
    samples.push_back(held.samples()[static_cast<std::size_t>(place)]);
  }
  const std::int64_t keep = std::ssize(models) - 2 * byzantine_;
  State next = mean_around_median(models, keep);
  average_counters(models, samples, next);  // spec: baselines 0.1
  return next.to(held.device());
}

MethodInfo bulyan_info() {
  return {.name = "bulyan",
          .group = "robust aggregation",
          .summary = "models chosen by Krum, averaged around the median",
          .make = [] { return std::make_unique<Bulyan>(); },
          .smoke = Json::object({{"method.byzantine", 0}})};
}

}  // namespace winnow

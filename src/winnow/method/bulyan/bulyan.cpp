#include "winnow/method/bulyan/bulyan.h"

#include <fmt/format.h>

#include "winnow/base/error.h"
#include "winnow/federation/robust_distance.h"

namespace winnow {

void Bulyan::declare(Params& params) {
  params.add("byzantine", byzantine_, "bad models expected, f; a round needs 4 f + 3 models")
      .at_least(0)
      .source("ours: the least that makes a difference to the mean");
}

void Bulyan::play(std::int64_t round, Server& server) {
  BaseMethod::play(round, server);
  server.notes["selected"] = selected_;
}

State Bulyan::finish() {
  const HeldModels held = held_.take();
  if (held.size() < 4 * byzantine_ + 3) {
    throw Error(
        ErrorKind::run,
        fmt::format("bulyan needs {} models to withstand byzantine = {} bad ones, and got {}",
                    4 * byzantine_ + 3, byzantine_, held.size()),
        "raise federation.fraction or lower method.byzantine");
  }
  const std::vector<std::int64_t> places =
      bulyan_selection(squared_distances(held.models()), byzantine_);
  selected_ = held.clients_at(places);
  std::vector<State> models;
  for (const std::int64_t place : places) {
    models.push_back(held.models()[static_cast<std::size_t>(place)]);
  }
  const std::int64_t keep = static_cast<std::int64_t>(models.size()) - 2 * byzantine_;
  return mean_around_median(models, keep).to(held.device());
}

MethodInfo bulyan_info() {
  return {"bulyan", "robust aggregation",
          "models chosen by Krum, averaged around the median of every coordinate",
          [] { return std::make_unique<Bulyan>(); }};
}

}  // namespace winnow

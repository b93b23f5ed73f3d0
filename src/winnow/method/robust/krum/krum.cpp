#include "winnow/method/robust/krum/krum.h"

#include <algorithm>

#include "winnow/federation/aggregation.h"
#include "winnow/federation/robust/robust_distance.h"

namespace winnow {
namespace {

void declare_byzantine(Params& params, std::int64_t& byzantine) {
  params
      .add("byzantine", byzantine,
           "number of bad models expected in a round (f); -1: a fifth of them")
      .at_least(-1)
      .source("spec: baselines 11; Flower's default is 0");
}

std::int64_t expected_bad(std::int64_t byzantine, std::int64_t models) {
  return byzantine < 0 ? default_byzantine(models) : byzantine;
}

// The places of the `keep` models of the lowest scores, best first.
std::vector<std::int64_t> best(const HeldModels& held, std::int64_t byzantine, std::int64_t keep) {
  return lowest(krum_scores(squared_distances(held.models()), byzantine), keep);
}

}  // namespace

void Krum::declare(Params& params) {
  declare_byzantine(params, byzantine_);
}

State Krum::finish(Round& round) {
  const HeldModels held = held_.take();
  const auto winner = best(held, expected_bad(byzantine_, held.size()), 1);
  round.notes["selected"] = held.clients_at(winner).front();
  return held.models()[static_cast<std::size_t>(winner.front())].to(held.device());
}

void MultiKrum::declare(Params& params) {
  declare_byzantine(params, byzantine_);
  params.add("keep", keep_, "number of models that are averaged; -1: all but the bad ones expected")
      .at_least(-1)
      .source("spec: baselines 11; Flower's default is 1");
}

State MultiKrum::finish(Round& round) {
  const HeldModels held = held_.take();
  const std::int64_t byzantine = expected_bad(byzantine_, held.size());
  const std::int64_t keep = std::max<std::int64_t>(1, keep_ < 0 ? held.size() - byzantine : keep_);
  const std::vector<std::int64_t> places = best(held, byzantine, keep);
  round.notes["selected"] = held.clients_at(places);
  WeightedMean mean;
  for (const std::int64_t place : places) {
    const auto at = static_cast<std::size_t>(place);
    mean.add(held.models()[at], held.weights()[at]);
  }
  return mean.finish().to(held.device());
}

MethodInfo krum_info() {
  return {"krum", "robust aggregation", "the one model closest to its nearest neighbours",
          [] { return std::make_unique<Krum>(); }};
}

MethodInfo multi_krum_info() {
  return {"multi_krum", "robust aggregation",
          "mean of the models closest to their nearest neighbours",
          [] { return std::make_unique<MultiKrum>(); }};
}

}  // namespace winnow

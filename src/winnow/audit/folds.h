// Who is judged by which model: folds over clients, or over samples where there are too few
// clients.
#pragma once

#include <cstdint>
#include <vector>

#include "winnow/federation/client.h"

namespace winnow {

struct Folds {
  bool over_clients = true;
  std::int64_t count = 0;
  std::vector<std::vector<std::int64_t>> of = {};  // by client and place: the fold that judges it

  // By client its fold, where folds are over clients; -1 for clients without samples.
  std::vector<std::int64_t> of_clients = {};
};

// `count` folds, drawn from (seed, "audit folds", repetition). Over clients, as even in number as
// can be, where at least as many clients as folds hold samples; else over samples, stratified by
// given label. Throws Error(kind data) where there are fewer samples than folds. spec: audit 1
Folds make_folds(const std::vector<ClientData>& clients, std::int64_t classes, std::int64_t count,
                 std::uint64_t seed, std::int64_t repetition);

// The clients without what a fold judges. Over samples a single client's rest is dealt out evenly
// among `parts` clients, so that it trains as a federation does.
std::vector<ClientData> without_fold(const std::vector<ClientData>& clients, const Folds& folds,
                                     std::int64_t fold, std::int64_t parts);

}  // namespace winnow

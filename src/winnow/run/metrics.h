// What a run measures round by round, and its summary (spec: partitions M).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/federation/fleet.h"

namespace winnow {

// One round as it is logged. Accuracy and loss are absent in rounds without evaluation; a loss that
// is not finite is written as null and read as absent.
struct RoundRecord {
  std::int64_t round = 0;  // from 1
  std::optional<double> accuracy;
  std::optional<double> loss;
  Traffic traffic;       // totals so far
  double seconds = 0.0;  // wall time of the run so far
  std::string hash;      // of the global model after the round
  // Where clients choose what to train on: of the round's choices, the mean over its clients.
  std::optional<double> label_precision = {};
  std::optional<double> label_recall = {};

  Json to_json() const;
  static RoundRecord from_json(const Json& json);
};

using History = std::vector<RoundRecord>;

struct Accuracies {
  double best = 0.0;  // selected on the test set, so optimistic: always shown beside `last`
  double last = 0.0;
  double last10 = 0.0;  // mean of the last ten evaluated rounds
};

// Mean of the last ten rounds that have a value; nothing when none has.
std::optional<double> last10(const History& history, std::optional<double> RoundRecord::*value);

// Over the evaluated rounds; all zero when there is none.
Accuracies accuracies(const History& history);

// Participations until the accuracy first reached `target`; nothing when it never did.
std::optional<std::int64_t> targeted_cost(const History& history, double target);

// One line per round with a header, as pandas reads it.
std::string metrics_csv(const History& history);

}  // namespace winnow

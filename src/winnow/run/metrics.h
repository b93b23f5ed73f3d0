// What a run measures round by round, and its summary (spec: partitions M).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "winnow/base/json.h"
#include "winnow/federation/fleet.h"

namespace winnow {

// One round as it is logged. Accuracy and loss are absent in rounds without evaluation, the
// training loss in rounds without training; a loss that is not finite is written as null and read
// as absent.
struct RoundRecord {
  std::int64_t round = 0;  // from 1
  std::optional<double> accuracy;
  std::optional<double> loss;  // on the test set
  Traffic traffic;             // totals so far
  double seconds = 0.0;        // wall time of the run so far
  std::string hash;            // of the global model after the round
  // Where clients choose what to train on: of the round's choices, the mean over its clients.
  std::optional<double> label_precision = {};
  std::optional<double> label_recall = {};
  // Beside the accuracy, where there are more than five classes: the share of test samples whose
  // label is among the five likeliest.
  std::optional<double> top5 = {};
  // Means over the classes, beside the accuracy.
  std::optional<double> macro_precision = {};
  std::optional<double> macro_recall = {};
  std::optional<double> macro_f1 = {};
  // What the clients of the round minimised on the labels that they trained on: the mean over all
  // samples of all their epochs, as training went on.
  std::optional<double> train_loss = {};

  Json to_json() const;
  static RoundRecord from_json(const Json& json);
};

using History = std::vector<RoundRecord>;

struct Accuracies {
  double best = 0.0;  // selected on the test set, so optimistic: always shown beside `last`
  double last = 0.0;
  std::optional<double> top5;    // the largest of all evaluated rounds
  std::optional<double> last10;  // mean over the last ten rounds, or over all of a shorter run
};

// How many rounds at its end a run evaluates whatever `eval_every` is: those of last10.
inline constexpr std::int64_t kLastRounds = 10;

// Best and last over the evaluated rounds, zero when there is none. Without last10 where one of its
// rounds was not evaluated, as in runs of versions that evaluated only the last round.
Accuracies accuracies(const History& history);

// Mean of the last ten rounds that have a value, however far apart; nothing when none has. For what
// is not measured in every round by its nature.
std::optional<double> mean_of_last_values(const History& history,
                                          std::optional<double> RoundRecord::*value);

// Participations until the accuracy first reached `target`; nothing when it never did.
std::optional<std::int64_t> targeted_cost(const History& history, double target);

// One line per round with a header, as pandas reads it.
std::string metrics_csv(const History& history);
// The lines of all rounds but the first so many.
std::string metrics_lines(const History& history, std::size_t first);

}  // namespace winnow

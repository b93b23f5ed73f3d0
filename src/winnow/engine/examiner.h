// The examiner: measures models on the server's own samples.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "winnow/model/state.h"
#include "winnow/train/lane.h"

namespace winnow {

// Models by the client that they belong to.
using ModelsByClient = std::map<std::int64_t, State>;

// Which of the models that clients remember.
enum class Kept : std::uint8_t {
  own,   // those that are the clients' own
  last,  // the last ones that they have sent
};

// What it finds does not depend on who works, nor on how many.
class Examiner {
 public:
  virtual ~Examiner() = default;

  // On the test set.
  virtual Score evaluate(const State& model) = 0;
  // The clients' own models on the test set: their sum, or the mean of their probabilities as one
  // model.
  virtual Score evaluate_each() = 0;
  virtual Score evaluate_ensemble() = 0;
  // By client how many test samples of every class its model gets right.
  virtual std::map<std::int64_t, std::vector<std::int64_t>> right_by_class(Kept kept) = 0;
  // Each model on the validation set; the data set must have one.
  virtual std::vector<Score> validate(const std::vector<State>& models) = 0;
};

}  // namespace winnow

// The messages of an audit: sums as fields, and back. What comes back from a client is checked for
// what no honest client can say, beyond the ranges of its exchange.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "winnow/federation/exchange.h"
#include "winnow/method/audit/audit/sums.h"

namespace winnow::audit {

// What all of them are measured with.
struct Scale {
  std::int64_t classes = 0;
  std::int64_t least = 1;  // samples in a sum by class
};

// All tasks with their replies; `classes` 0: any number.
std::vector<Exchange> exchanges(std::int64_t classes);

Message write_first(const FirstSums& sums);
// Nothing where it contradicts itself, or the number of samples.
std::optional<FirstSums> read_first(const Message& reply, const Scale& scale, std::int64_t samples);

// `known`: the classes that the client's model has seen.
Message write_told(const Told& told, const std::vector<bool>& known);
struct ToldClient {
  Told told;
  std::vector<bool> known;
};
ToldClient read_told(const Message& task);

Message write_second(const SecondSums& sums);
std::optional<SecondSums> read_second(const Message& reply, const Scale& scale,
                                      const FirstSums& first);

// What the owner is told of itself in the end.
struct Outcome {
  std::vector<double> bars;
  double noise_rate = 0.0;
  Interval interval = {};
  NoiseKind kind = NoiseKind::none;
  double excess_rate = 0.0;
  std::array<double, kVerdicts> probabilities{};
};
Message write_outcome(const Outcome& outcome);
Outcome read_outcome(const Message& task);

}  // namespace winnow::audit

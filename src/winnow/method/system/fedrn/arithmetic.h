// Who can be trusted with a client's samples: FedRN's reliability of neighbours, on the server.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "winnow/base/random.h"
#include "winnow/federation/by_client.h"
#include "winnow/method/method.h"

namespace winnow::fedrn {

// What the server knows of a client beside its model, from its last upload.
struct Profile {
  double expertise = 0.0;     // accuracy on all its samples with the labels it was given
  std::vector<float> output;  // logits for the random input, one per class

  bool operator==(const Profile& other) const = default;
};
// By client; those that never uploaded are absent.
using Profiles = ByClient<Profile>;

// Which neighbours help a client.
enum class Helpers { reliable, random };
// What the vote of a random neighbour weighs.
enum class Votes { equal, by_reliability };

enum class Similarity {
  logits,   // cosine of the outputs as they are: the released code
  softmax,  // cosine of their softmax: the paper
};

// How far a target should trust itself and every other known client; none is negative.
struct Reliability {
  double self = 1.0;
  std::map<std::int64_t, double> others;
};

// a.b / (|a| |b|), each norm at least 1e-8. Both have the same length.
double cosine(std::span<const double> a, std::span<const double> b);

// alpha * expertise + (1 - alpha) * similarity, both min-max normalised over all known clients, the
// target included; the target is similar to itself by 1 (spec: label-noise B.3). A target that
// never uploaded trusts itself by 1 and is similar to everybody by 1 (B.4 #5).
Reliability reliability(const Profiles& profiles, std::int64_t target, double alpha,
                        Similarity similarity);

// The cosines of the outputs of all known clients, or of `most` of them, evenly chosen from the
// first to the last.
Likeness likeness(const Profiles& profiles, Similarity similarity, std::size_t most);

// The `count` others with the largest reliability, best first, of equal ones the lower id first;
// all of them when there are fewer.
std::vector<std::int64_t> most_reliable(const Reliability& reliability, std::int64_t count);

// `count` distinct known clients other than the target, uniformly, ascending; all of them when
// there are fewer.
std::vector<std::int64_t> random_neighbours(const Profiles& profiles, std::int64_t target,
                                            std::int64_t count, Stream stream);

}  // namespace winnow::fedrn

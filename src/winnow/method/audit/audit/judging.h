// What training and models have to do with an audit: who is judged by which model, what it says,
// and how updates lie to each other (spec: audit 1, 4).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "winnow/method/audit/audit/sums.h"
#include "winnow/model/state.h"

namespace winnow::audit {

// The fold of each of these clients: as even in number as can be, drawn from (seed, "audit folds",
// repetition).
std::map<std::int64_t, std::int64_t> deal_folds(const std::vector<std::int64_t>& clients,
                                                std::int64_t count, std::uint64_t seed,
                                                std::int64_t repetition);

// The seed of the federation that is trained without fold number so and so of all repetitions.
std::uint64_t fold_seed(std::uint64_t seed, std::int64_t number);

// What a model says of samples, on the host.
struct Said {
  at::Tensor p = {};         // float [samples, classes]; 0 where it is not finite
  at::Tensor features = {};  // float [samples, width]; undefined where the network has none
  // Of the head's gradient under the uniform target.
  std::vector<double> gradient_norms = {};
};
// From what the head takes, undefined where the network has none, and says.
Said said_of(const at::Tensor& features, const at::Tensor& logits);

// Mean distance of each row to its nearest neighbours among the others; 0 where there are none.
std::vector<double> neighbour_distances(const at::Tensor& features);

// Some of the coordinates of an update, in double precision on the host.
at::Tensor thinned_update(const State& start, const State& end);
// How each of them lies to the mean of the others; one alone says nothing.
std::vector<UpdateShape> compare_updates(const std::vector<at::Tensor>& updates);

}  // namespace winnow::audit

// The arithmetic of FedNoRo, free of messages and of clients (spec: rivals 2).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "winnow/federation/robust/robust.h"
#include "winnow/model/state.h"
#include "winnow/stats/vector_mixture.h"

namespace winnow::fednoro {

// What a client tells of its classes: the mean loss of the global model over the samples that carry
// a label, and how many these are. A class it does not have is 0 and 0.
struct ClassLosses {
  std::vector<double> mean;
  std::vector<double> count;
};
ClassLosses class_losses(std::span<const double> losses, std::span<const std::int64_t> labels,
                         std::size_t classes);

// The clients' vectors as they are compared: a class that a client does not have takes the smallest
// value of the others, then every class is scaled to 0..1 over the clients; one in which all agree
// is 0. Ascending clients, one row each.
Rows comparable(const std::map<std::int64_t, ClassLosses>& clients);

// The clients of the mixture component whose means sum to more, by the set that most of nine starts
// agree on; of equally frequent sets the first. Nobody where the vectors cannot be told apart.
// `pause` as gmm2_vectors() has it.
std::set<std::int64_t> noisy_clients(const std::map<std::int64_t, ClassLosses>& clients,
                                     std::uint64_t seed, const std::function<void()>& pause = {});

// a exp(-5 (1 - (t - b) / (e - b))^2), with t kept between b and e; a itself where e <= b.
double distillation_weight(double a, std::int64_t round, std::int64_t begin, std::int64_t end);

// sum over tensors of ||a - b||_F, counters left out.
double tensor_distance(const State& a, const State& b);

// exp(-d_k) for the models of noisy clients, where d_k is the distance from the nearest model of a
// clean client over the largest such distance; 1 for clean ones, and for all where there is only
// one kind.
std::vector<double> distance_factors(const HeldModels& held, const std::set<std::int64_t>& noisy);

}  // namespace winnow::fednoro

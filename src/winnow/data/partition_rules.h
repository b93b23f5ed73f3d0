// The rules that partitions are built from, each small enough to check by hand.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/base/random.h"
#include "winnow/data/partition.h"

namespace winnow {

// The indices of every class, in the order of the data set.
std::vector<std::vector<std::int64_t>> indices_by_class(std::span<const std::int64_t> labels,
                                                        std::int64_t classes);

// How many of `count` samples each client gets: the cumulative shares are truncated, the last
// client takes the rest. The sum is always `count`. spec: partitions P3
std::vector<std::int64_t> cut_counts(std::span<const double> shares, std::int64_t count);

// Sets the share of every client that already holds samples/clients samples to zero and scales the
// others to sum 1. False, with shares unusable, when nothing is left to scale. spec: partitions P3
bool cap_shares(std::span<double> shares, std::span<const std::int64_t> sizes,
                std::int64_t samples);

// How many of `count` samples each client gets by its size before scaling: the scaled sizes are
// truncated, the first client takes what that leaves over. spec: partitions P1
std::vector<std::int64_t> scaled_counts(std::span<const double> sizes, std::int64_t count);

// The client (an index into `shares`) of each of `count` samples, drawn independently.
// spec: partitions P5
std::vector<std::size_t> scatter(Stream& stream, std::span<const double> shares,
                                 std::int64_t count);

// member[k][c]: may client k hold class c? Every client has a class and every class a client.
using Membership = std::vector<std::vector<bool>>;
Membership draw_membership(Stream& stream, std::int64_t clients, std::int64_t classes, double p);

// Gives every sample of a class to one of the class's members, with shares from Dirichlet(alpha).
Assignment assign_members(Stream& stream, const Membership& member,
                          const std::vector<std::vector<std::int64_t>>& by_class, double alpha);

// The built-in partitions.
Assignment iid_floor(const PartitionInput& input);
Assignment iid_split(const PartitionInput& input);
Assignment iid_random(const PartitionInput& input, std::int64_t min_size);
Assignment iid_lognormal(const PartitionInput& input, double sigma, std::int64_t min_size);
Assignment shards(const PartitionInput& input, std::int64_t per_client);
Assignment dirichlet_class(const PartitionInput& input, double alpha, std::int64_t min_size);
Assignment dirichlet_label_blind(const PartitionInput& input, double alpha, std::int64_t min_size);
Assignment bernoulli_dirichlet(const PartitionInput& input, double p, double alpha,
                               std::int64_t min_size);

}  // namespace winnow

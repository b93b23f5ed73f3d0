#include "winnow/data/partition_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "winnow/base/error.h"
#include "winnow/base/math.h"

namespace winnow {
namespace {

using Counts = std::vector<std::vector<std::int64_t>>;  // [class][client]
using Lists = std::vector<std::vector<std::int64_t>>;

constexpr int kDirichletTries = 1000;  // spec: partitions P3
constexpr int kBernoulliTries = 100;   // spec: partitions P5
constexpr int kRandomTries = 100;
constexpr int kShareTries = 1000;
constexpr int kMembershipTries = 100000;
constexpr std::int64_t kBlindBlocks = 10;  // spec: partitions P4

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

std::int64_t count_of(const std::vector<std::int64_t>& list) {
  return std::ssize(list);
}

Assignment empty_assignment(std::int64_t clients) {
  return Assignment(index(clients));
}

bool all_hold(const Assignment& assign, std::int64_t min_size) {
  return std::ranges::all_of(assign, [&](const auto& list) { return count_of(list) >= min_size; });
}

void shuffle_each(Stream& stream, Assignment& assign) {
  for (auto& list : assign) {
    stream.shuffle(std::span<std::int64_t>(list));
  }
}

[[noreturn]] void give_up(std::string_view name, int tries, std::string_view knobs,
                          std::int64_t min_size, const PartitionInput& input) {
  throw Error(
      ErrorKind::experiment,
      fmt::format("{}: none of {} draws gave every client min_size samples ({}clients = {}, "
                  "min_size = {}, {} samples)",
                  name, tries, knobs, input.clients, min_size, input.samples()),
      knobs.empty() ? "lower federation.clients or min_size"
                    : "raise alpha, or lower federation.clients or min_size");
}

[[noreturn]] void shares_vanish(double alpha) {
  throw Error(
      ErrorKind::experiment,
      fmt::format("alpha = {}: all shares of a class were zero in {} draws", alpha, kShareTries),
      "raise alpha");
}

void check_reachable(std::string_view name, std::int64_t min_size, std::int64_t available,
                     std::string_view available_text, const PartitionInput& input) {
  if (min_size > available / input.clients) {
    throw Error(ErrorKind::experiment,
                fmt::format("{}: clients * min_size is more than {} {} samples (clients = {}, "
                            "min_size = {})",
                            name, available_text, input.samples(), input.clients, min_size),
                "lower federation.clients or min_size");
  }
}

// How many samples of each class every client gets, or nothing when a client ends below min_size.
// The counts depend on class sizes only, so a refused try costs no shuffling.
std::optional<Counts> draw_counts(Stream& stream, const Lists& by_class, double alpha,
                                  std::int64_t min_size, const PartitionInput& input) {
  std::vector<std::int64_t> sizes(index(input.clients), 0);
  Counts counts;
  for (const auto& samples : by_class) {
    std::vector<double> shares;
    bool usable = samples.empty();
    for (int tries = 0; !usable; ++tries) {
      if (tries == kShareTries) {
        shares_vanish(alpha);
      }
      shares = stream.dirichlet(alpha, sizes.size());
      usable = cap_shares(shares, sizes, input.samples());
    }
    counts.push_back(samples.empty() ? std::vector<std::int64_t>(sizes.size(), 0)
                                     : cut_counts(shares, count_of(samples)));
    std::ranges::transform(sizes, counts.back(), sizes.begin(), std::plus<>());
  }
  if (std::ranges::min(sizes) < min_size) {
    return std::nullopt;
  }
  return counts;
}

// spec: partitions P3
Assignment dirichlet(std::string_view name, Stream& stream, Lists by_class, double alpha,
                     std::int64_t min_size, const PartitionInput& input) {
  check_reachable(name, min_size, input.samples() / 2, "half of the", input);
  std::optional<Counts> counts;
  for (int tries = 0; !counts; ++tries) {
    if (tries == kDirichletTries) {
      give_up(name, tries, fmt::format("alpha = {}, ", alpha), min_size, input);
    }
    counts = draw_counts(stream, by_class, alpha, min_size, input);
  }
  Assignment assign = empty_assignment(input.clients);
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    stream.shuffle(std::span<std::int64_t>(by_class[c]));
    auto next = by_class[c].cbegin();
    for (std::size_t k = 0; k < assign.size(); ++k) {
      const auto end = next + (*counts)[c][k];
      assign[k].insert(assign[k].end(), next, end);
      next = end;
    }
  }
  shuffle_each(stream, assign);
  return assign;
}

std::vector<double> usable_dirichlet(Stream& stream, double alpha, std::size_t size) {
  for (int tries = 0; tries < kShareTries; ++tries) {
    auto shares = stream.dirichlet(alpha, size);
    if (std::accumulate(shares.begin(), shares.end(), 0.0) > 0.0) {
      return shares;
    }
  }
  shares_vanish(alpha);
}

}  // namespace

Lists indices_by_class(std::span<const std::int64_t> labels, std::int64_t classes) {
  Lists lists(index(classes));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    lists[index(labels[i])].push_back(static_cast<std::int64_t>(i));
  }
  return lists;
}

std::vector<std::int64_t> cut_counts(std::span<const double> shares, std::int64_t count) {
  std::vector<std::int64_t> counts(shares.size(), 0);
  double cumulative = 0.0;
  std::int64_t taken = 0;
  for (std::size_t k = 0; k + 1 < shares.size(); ++k) {
    cumulative += shares[k];
    const auto cut = static_cast<std::int64_t>(cumulative * static_cast<double>(count));
    // Rounding may carry the sum of all shares just past 1.
    counts[k] = std::min(cut, count) - taken;
    taken += counts[k];
  }
  if (!counts.empty()) {
    counts.back() = count - taken;
  }
  return counts;
}

bool cap_shares(std::span<double> shares, std::span<const std::int64_t> sizes,
                std::int64_t samples) {
  const auto clients = std::ssize(shares);
  double sum = 0.0;
  for (std::size_t k = 0; k < shares.size(); ++k) {
    if (sizes[k] * clients >= samples) {
      shares[k] = 0.0;
    }
    sum += shares[k];
  }
  if (!(sum > 0.0)) {
    return false;
  }
  for (double& share : shares) {
    share /= sum;
  }
  return true;
}

std::vector<std::size_t> scatter(Stream& stream, std::span<const double> shares,
                                 std::int64_t count) {
  std::vector<double> ends(shares.size());
  std::partial_sum(shares.begin(), shares.end(), ends.begin());
  // The last client with a share above zero; rounding must not carry a draw past it.
  const auto last = std::ranges::lower_bound(ends, ends.back());
  std::vector<std::size_t> chosen(index(count));
  for (std::size_t& client : chosen) {
    const auto at = std::ranges::upper_bound(ends, stream.uniform() * ends.back());
    client = static_cast<std::size_t>(std::min(at, last) - ends.begin());
  }
  return chosen;
}

Membership draw_membership(Stream& stream, std::int64_t clients, std::int64_t classes, double p) {
  const auto failed = [&](std::string_view what) {
    return Error(ErrorKind::experiment,
                 fmt::format("p = {}: {} in {} draws (clients = {}, {} classes)", p, what,
                             kMembershipTries, clients, classes),
                 "raise p");
  };
  Membership member(index(clients), std::vector<bool>(index(classes)));
  for (auto& row : member) {
    int tries = 0;
    do {
      if (tries++ == kMembershipTries) {
        throw failed("a client got no class");
      }
      std::generate(row.begin(), row.end(), [&] { return stream.bernoulli(p); });
    } while (std::ranges::none_of(row, std::identity()));
  }
  for (std::size_t c = 0; c < index(classes); ++c) {
    const auto holds = [c](const std::vector<bool>& row) { return bool{row[c]}; };
    for (int tries = 0; std::ranges::none_of(member, holds); ++tries) {
      if (tries == kMembershipTries) {
        throw failed("a class got no client");
      }
      for (auto& row : member) {
        row[c] = stream.bernoulli(p);
      }
    }
  }
  return member;
}

Assignment assign_members(Stream& stream, const Membership& member, const Lists& by_class,
                          double alpha) {
  Assignment assign(member.size());
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    std::vector<std::size_t> holders;
    for (std::size_t k = 0; k < member.size(); ++k) {
      if (member[k][c]) {
        holders.push_back(k);
      }
    }
    const auto shares = usable_dirichlet(stream, alpha, holders.size());
    const auto chosen = scatter(stream, shares, count_of(by_class[c]));
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      assign[holders[chosen[i]]].push_back(by_class[c][i]);
    }
  }
  return assign;
}

// spec: partitions P1
Assignment iid_floor(const PartitionInput& input) {
  Stream stream(input.seed, "partition");
  const auto order = stream.permutation(input.samples());
  const std::int64_t size = input.samples() / input.clients;
  Assignment assign = empty_assignment(input.clients);
  auto next = order.cbegin();
  for (auto& list : assign) {
    list.assign(next, next + size);
    next += size;
  }
  return assign;
}

// spec: partitions P1
Assignment iid_split(const PartitionInput& input) {
  Stream stream(input.seed, "partition");
  const auto order = stream.permutation(input.samples());
  std::int64_t longer = input.samples() % input.clients;
  Assignment assign = empty_assignment(input.clients);
  auto next = order.cbegin();
  for (auto& list : assign) {
    const std::int64_t size = input.samples() / input.clients + (longer-- > 0 ? 1 : 0);
    list.assign(next, next + size);
    next += size;
  }
  return assign;
}

// spec: input-noise 1.7
Assignment iid_random(const PartitionInput& input, std::int64_t min_size) {
  check_reachable("iid_random", min_size, input.samples(), "the", input);
  Stream stream(input.seed, "partition");
  for (int tries = 0; tries < kRandomTries; ++tries) {
    Assignment assign = empty_assignment(input.clients);
    for (std::int64_t i = 0; i < input.samples(); ++i) {
      assign[stream.below(assign.size())].push_back(i);
    }
    if (all_hold(assign, min_size)) {
      return assign;
    }
  }
  give_up("iid_random", kRandomTries, "", min_size, input);
}

std::vector<std::int64_t> scaled_counts(std::span<const double> sizes, std::int64_t count) {
  const double sum = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  std::vector<std::int64_t> counts;
  for (const double size : sizes) {
    counts.push_back(static_cast<std::int64_t>(size * static_cast<double>(count) / sum));
  }
  counts.front() += count - std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  return counts;
}

// spec: partitions P1
Assignment iid_lognormal(const PartitionInput& input, double sigma, std::int64_t min_size) {
  check_reachable("iid_lognormal", min_size, input.samples(), "the", input);
  Stream stream(input.seed, "partition");
  for (int tries = 0; tries < kRandomTries; ++tries) {
    std::vector<double> sizes(index(input.clients));
    std::ranges::generate(sizes, [&] { return math::exp(sigma * stream.normal()); });
    const std::vector<std::int64_t> counts = scaled_counts(sizes, input.samples());
    if (std::ranges::min(counts) < min_size) {
      continue;
    }
    const auto order = stream.permutation(input.samples());
    Assignment assign = empty_assignment(input.clients);
    auto next = order.cbegin();
    for (std::size_t k = 0; k < assign.size(); ++k) {
      assign[k].assign(next, next + counts[k]);
      next += counts[k];
    }
    return assign;
  }
  throw Error(ErrorKind::experiment,
              fmt::format("iid_lognormal: none of {} draws gave every client min_size samples "
                          "(sigma = {}, clients = {}, min_size = {}, {} samples)",
                          kRandomTries, sigma, input.clients, min_size, input.samples()),
              "lower sigma, federation.clients or min_size");
}

// spec: partitions P2
Assignment shards(const PartitionInput& input, std::int64_t per_client) {
  const std::int64_t length = input.samples() / input.clients / per_client;
  if (length == 0) {
    throw Error(ErrorKind::experiment,
                fmt::format("shards: fewer samples than shards ({} samples, clients = {}, "
                            "shards_per_client = {})",
                            input.samples(), input.clients, per_client),
                "lower federation.clients or shards_per_client");
  }
  std::vector<std::int64_t> sorted;
  for (const auto& list : indices_by_class(input.labels, input.classes)) {
    sorted.insert(sorted.end(), list.begin(), list.end());
  }
  Stream stream(input.seed, "partition");
  const auto order = stream.permutation(per_client * input.clients);
  Assignment assign = empty_assignment(input.clients);
  auto next = order.cbegin();
  for (auto& list : assign) {
    for (std::int64_t s = 0; s < per_client; ++s, ++next) {
      const auto first = sorted.cbegin() + *next * length;
      list.insert(list.end(), first, first + length);
    }
  }
  shuffle_each(stream, assign);
  return assign;
}

Assignment dirichlet_class(const PartitionInput& input, double alpha, std::int64_t min_size) {
  Stream stream(input.seed, "partition");
  return dirichlet("dirichlet_class", stream, indices_by_class(input.labels, input.classes), alpha,
                   min_size, input);
}

// spec: partitions P4. The blocks are cut from a permutation, so that a data set stored class by
// class does not turn them into real classes.
Assignment dirichlet_label_blind(const PartitionInput& input, double alpha, std::int64_t min_size) {
  const std::int64_t length = input.samples() / kBlindBlocks;
  if (length == 0) {
    throw Error(ErrorKind::experiment,
                fmt::format("dirichlet_label_blind: {} samples, expected at least {}",
                            input.samples(), kBlindBlocks));
  }
  Stream stream(input.seed, "partition");
  const auto order = stream.permutation(input.samples());
  Lists blocks;
  for (std::int64_t b = 0; b < kBlindBlocks; ++b) {
    blocks.emplace_back(order.cbegin() + b * length, order.cbegin() + (b + 1) * length);
  }
  return dirichlet("dirichlet_label_blind", stream, std::move(blocks), alpha, min_size, input);
}

// spec: partitions P5
Assignment bernoulli_dirichlet(const PartitionInput& input, double p, double alpha,
                               std::int64_t min_size) {
  check_reachable("bernoulli_dirichlet", min_size, input.samples(), "the", input);
  const Lists by_class = indices_by_class(input.labels, input.classes);
  Stream stream(input.seed, "partition");
  for (int tries = 0; tries < kBernoulliTries; ++tries) {
    const Membership member = draw_membership(stream, input.clients, input.classes, p);
    Assignment assign = assign_members(stream, member, by_class, alpha);
    if (all_hold(assign, min_size)) {
      shuffle_each(stream, assign);
      return assign;
    }
  }
  give_up("bernoulli_dirichlet", kBernoulliTries, fmt::format("p = {}, alpha = {}, ", p, alpha),
          min_size, input);
}

}  // namespace winnow

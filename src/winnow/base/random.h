// Keyed random streams. Every draw of a run comes from a stream named by (seed, purpose,
// numbers...), so a result never depends on the order in which clients, lanes or processes happen
// to work.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace winnow {

// A 64-bit key made from a seed, a purpose in words and any numbers (round, client, ...).
std::uint64_t stream_key(std::uint64_t seed, std::string_view purpose,
                         std::initializer_list<std::uint64_t> numbers);

// A counter-based generator (Philox 4x32-10). Two streams with different keys are independent; the
// same key always gives the same values, on every machine. Not thread-safe: make one per user.
class Stream {
 public:
  explicit Stream(std::uint64_t key) : key_(key) {}

  // Stream(seed, "partition"), Stream(seed, "batches", round, client), ...
  template <std::integral... Numbers>
  Stream(std::uint64_t seed, std::string_view purpose, Numbers... numbers)
      : key_(stream_key(seed, purpose, {static_cast<std::uint64_t>(numbers)...})) {}

  std::uint32_t next_u32();
  std::uint64_t next_u64();
  double uniform();                          // [0, 1) with 53 bits
  double uniform(double low, double high);   // [low, high)
  std::uint64_t below(std::uint64_t bound);  // 0 .. bound-1, without bias; bound > 0
  bool bernoulli(double probability);
  double normal();                                   // mean 0, standard deviation 1
  double truncated_normal(double low, double high);  // standard normal kept inside [low, high]
  double gamma(double shape);                        // scale 1; shape > 0
  double beta(double a, double b);
  std::uint64_t poisson(double mean);
  // Length n, non-negative, sums to 1. With a tiny alpha all shares may underflow: then all are 0.
  std::vector<double> dirichlet(double alpha, std::size_t n);
  // An index drawn with probability proportional to its weight; weights >= 0, not all zero.
  std::size_t categorical(std::span<const double> weights);

  template <typename T>
  void shuffle(std::span<T> items) {
    for (std::size_t left = items.size(); left > 1; --left) {
      std::swap(items[left - 1], items[below(left)]);
    }
  }
  std::vector<std::int64_t> permutation(std::int64_t n);
  // `count` distinct numbers of 0..n-1 in random order.
  std::vector<std::int64_t> sample(std::int64_t n, std::int64_t count);

 private:
  void refill();

  std::uint64_t key_;
  std::uint64_t counter_ = 0;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
  double spare_normal_ = 0.0;
  bool has_spare_ = false;
};

}  // namespace winnow

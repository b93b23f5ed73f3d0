#include "winnow/base/random.h"

#include <cmath>
#include <numbers>
#include <unordered_map>

#include "winnow/base/math.h"

namespace winnow {
namespace {

// The finaliser of SplitMix64: every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  return hash;
}

// Whether a standard normal falls into [low, high] less than once in a thousand times.
bool is_far_in_a_tail(double low, double high) {
  if ((low <= 0.0 && high >= 0.1) || (low <= -0.1 && high >= 0.0)) {
    return false;  // the usual case, without the cost of erfc
  }
  const double below_low = 0.5 * math::erfc(-low / std::numbers::sqrt2);
  const double below_high = 0.5 * math::erfc(-high / std::numbers::sqrt2);
  return below_high - below_low < 1e-3;
}

}  // namespace

std::uint64_t stream_key(std::uint64_t seed, std::string_view purpose,
                         std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t key = mix(mix(seed) ^ hash_text(purpose));
  for (const std::uint64_t number : numbers) {
    key = mix(key ^ mix(number + 0x632BE59BD9B4E019ULL));
  }
  return key;
}

void Stream::refill() {
  // Philox 4x32-10 (Salmon et al. 2011): ten rounds over a 128-bit counter with a 64-bit key.
  std::uint32_t c0 = static_cast<std::uint32_t>(counter_);
  std::uint32_t c1 = static_cast<std::uint32_t>(counter_ >> 32);
  std::uint32_t c2 = 0;
  std::uint32_t c3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(key_);
  std::uint32_t k1 = static_cast<std::uint32_t>(key_ >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c2;
    const std::uint32_t next0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t next2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c0 = next0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = next2;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  block_ = {c0, c1, c2, c3};
  ++counter_;
  used_ = 0;
}

std::uint32_t Stream::next_u32() {
  if (used_ == 4) {
    refill();
  }
  return block_[static_cast<std::size_t>(used_++)];
}

std::uint64_t Stream::next_u64() {
  const std::uint64_t low = next_u32();
  return low | (static_cast<std::uint64_t>(next_u32()) << 32);
}

double Stream::uniform() {
  return static_cast<double>(next_u64() >> 11) * 0x1.0p-53;
}

double Stream::uniform(double low, double high) {
  return low + (high - low) * uniform();
}

std::uint64_t Stream::below(std::uint64_t bound) {
  // Values under the threshold would make the first residues likelier; they are drawn again.
  const std::uint64_t threshold = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t value = next_u64();
    if (value >= threshold) {
      return value % bound;
    }
  }
}

bool Stream::bernoulli(double probability) {
  return uniform() < probability;
}

double Stream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  const double radius = std::sqrt(-2.0 * math::log(1.0 - uniform()));
  const double angle = 2.0 * std::numbers::pi * uniform();
  spare_normal_ = radius * math::sin(angle);
  has_spare_ = true;
  return radius * math::cos(angle);
}

double Stream::truncated_normal(double low, double high) {
  if (is_far_in_a_tail(low, high)) {
    // Rejection from the normal would take for ever; the uniform is bounded enough.
    const double mode = low > 0.0 ? low : (high < 0.0 ? high : 0.0);
    for (;;) {
      const double value = uniform(low, high);
      if (uniform() <= math::exp(0.5 * (mode * mode - value * value))) {
        return value;
      }
    }
  }
  for (;;) {
    const double value = normal();
    if (value >= low && value <= high) {
      return value;
    }
  }
}

double Stream::gamma(double shape) {
  if (shape < 1.0) {
    const double boost = math::pow(1.0 - uniform(), 1.0 / shape);
    return gamma(shape + 1.0) * boost;
  }
  // Marsaglia and Tsang (2000).
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal();
    const double root = 1.0 + c * x;
    const double v = root * root * root;
    if (v <= 0.0) {
      continue;
    }
    const double u = 1.0 - uniform();
    if (math::log(u) < 0.5 * x * x + d - d * v + d * math::log(v)) {
      return d * v;
    }
  }
}

double Stream::beta(double a, double b) {
  const double x = gamma(a);
  const double y = gamma(b);
  return x + y > 0.0 ? x / (x + y) : 0.5;
}

std::uint64_t Stream::poisson(double mean) {
  std::uint64_t count = 0;
  // Halve large means (the sum of two Poissons is Poisson) so that exp(-mean) stays representable.
  while (mean > 30.0) {
    const double half = std::floor(mean / 2.0);
    const double waited = gamma(half);
    if (waited > mean) {
      // The half-th arrival is later than `mean`: the earlier ones are uniform before it.
      const double share = mean / waited;
      for (std::uint64_t i = 1; i < static_cast<std::uint64_t>(half); ++i) {
        count += bernoulli(share) ? 1 : 0;
      }
      return count;
    }
    count += static_cast<std::uint64_t>(half);
    mean -= waited;
  }
  const double limit = math::exp(-mean);
  double product = uniform();
  while (product > limit) {
    ++count;
    product *= uniform();
  }
  return count;
}

std::vector<double> Stream::dirichlet(double alpha, std::size_t n) {
  std::vector<double> shares(n);
  double sum = 0.0;
  for (double& share : shares) {
    share = gamma(alpha);
    sum += share;
  }
  if (sum > 0.0) {
    for (double& share : shares) {
      share /= sum;
    }
  }
  return shares;
}

std::size_t Stream::categorical(std::span<const double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double left = uniform() * total;
  std::size_t last_positive = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0.0) {
      continue;
    }
    last_positive = i;
    left -= weights[i];
    if (left < 0.0) {
      return i;
    }
  }
  return last_positive;
}

std::vector<std::int64_t> Stream::permutation(std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  shuffle(std::span<std::int64_t>(order));
  return order;
}

namespace {

// The numbers 0..n-1 in a row, of which only those are kept that were moved.
class SparseRow {
 public:
  std::int64_t at(std::int64_t place) const {
    const auto moved = moved_.find(place);
    return moved == moved_.end() ? place : moved->second;
  }
  void put(std::int64_t place, std::int64_t value) { moved_[place] = value; }

 private:
  std::unordered_map<std::int64_t, std::int64_t> moved_;
};

constexpr std::int64_t kFewOf = 16;

}  // namespace

std::vector<std::int64_t> Stream::sample(std::int64_t n, std::int64_t count) {
  if (count < n / kFewOf) {  // the same swaps, without the numbers that nobody draws
    SparseRow row;
    std::vector<std::int64_t> drawn;
    drawn.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      const auto other = i + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(n - i)));
      drawn.push_back(row.at(other));
      row.put(other, row.at(i));
    }
    return drawn;
  }
  std::vector<std::int64_t> pool(static_cast<std::size_t>(n));
  std::iota(pool.begin(), pool.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < count; ++i) {
    const auto other = i + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(n - i)));
    std::swap(pool[static_cast<std::size_t>(i)], pool[static_cast<std::size_t>(other)]);
  }
  pool.resize(static_cast<std::size_t>(count));
  return pool;
}

}  // namespace winnow

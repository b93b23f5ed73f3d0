#include "winnow/base/math.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace winnow::math {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// An unevaluated sum of two doubles, about 106 bits; |low| is at most half a unit of `high`.
struct Pair {
  double high = 0.0;
  double low = 0.0;
};

// The exact sum, where |a| >= |b| or a is 0 (Dekker).
Pair ordered_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// The exact sum (Knuth).
Pair exact_sum(double a, double b) {
  const double sum = a + b;
  const double part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

// The upper 26 bits of a number; the rest fits in 27 bits.
double upper_half(double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0xFFFFFFFFF8000000ULL);
}

// a * b with an error far below 106 bits of it: the lowest partial product alone is rounded.
Pair exact_product(double a, double b) {
  const double product = a * b;
  const double a1 = upper_half(a);
  const double a2 = a - a1;
  const double b1 = upper_half(b);
  const double b2 = b - b1;
  return {product, ((a1 * b1 - product) + (a1 * b2 + a2 * b1)) + a2 * b2};
}

Pair operator+(Pair a, Pair b) {
  const Pair sum = exact_sum(a.high, b.high);
  return ordered_sum(sum.high, sum.low + (a.low + b.low));
}

Pair operator*(Pair a, Pair b) {
  const Pair product = exact_product(a.high, b.high);
  return ordered_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

Pair operator/(Pair a, Pair b) {
  const double first = a.high / b.high;
  const Pair back = b * Pair{first};
  const double rest = ((a.high - back.high) - back.low) + a.low;
  return ordered_sum(first, rest / b.high);
}

// Coefficients of the series below, from the lowest.
constexpr auto kOverFactorial = [] {
  std::array<double, 20> values{};
  double factorial = 1.0;
  for (std::size_t n = 0; n < values.size(); ++n) {
    factorial *= n > 0 ? static_cast<double>(n) : 1.0;  // exact
    values[n] = 1.0 / factorial;
  }
  return values;
}();
constexpr auto kOverOdd = [] {  // 1/(2n + 1)
  std::array<double, 13> values{};
  for (std::size_t n = 0; n < values.size(); ++n) {
    values[n] = 1.0 / (2.0 * static_cast<double>(n) + 1.0);
  }
  return values;
}();
constexpr auto kErf = [] {  // of erf, without the first two: 1/((2n + 5) (n + 2)!)
  std::array<double, 14> values{};
  double factorial = 1.0;
  for (std::size_t n = 0; n < values.size(); ++n) {
    factorial *= static_cast<double>(n + 2);
    values[n] = 1.0 / ((2.0 * static_cast<double>(n) + 5.0) * factorial);
  }
  return values;
}();

// x * 2^exponent, with one rounding only where the result is subnormal.
double scale(double x, int exponent) {
  const auto power = [](int n) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
  };
  if (exponent > 1023) {
    return x * power(1023) * power(exponent - 1023);
  }
  if (exponent < -1022) {
    return x * power(exponent + 1000) * power(-1000);
  }
  return x * power(exponent);
}

// A positive number as mantissa * 2^exponent with the mantissa in [sqrt(1/2), sqrt(2)).
struct Parts {
  double mantissa;
  int exponent;
};

Parts take_apart(double x) {
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1.0p54;
    exponent = -54;
  }
  const auto bits = std::bit_cast<std::uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFULL) | 0x3FF0000000000000ULL);
  if (mantissa >= 0x1.6a09e667f3bcdp+0) {
    mantissa *= 0.5;
    ++exponent;
  }
  return {mantissa, exponent};
}

// ln 2 in pieces; the first two have 32 bits, so that their products with an exponent are exact.
constexpr double kLn2First = 0x1.62e42fee00000p-1;
constexpr double kLn2Second = 0x1.a39ef35600000p-33;
constexpr double kLn2Third = 0x1.93c7673007e5fp-65;

// s = (m - 1) / (m + 1), for which log m = 2 (s + s^3/3 + s^5/5 + ...); |s| < 0.1716.
Pair half_way(double mantissa) {
  const double above = mantissa - 1.0;  // exact
  const double sum = mantissa + 1.0;
  const double sum1 = upper_half(sum);
  const double sum2 = above - (sum1 - 2.0);
  const double s = above / sum;
  const double s1 = upper_half(s);
  const double s2 = ((above - s1 * sum1) - s1 * sum2) / sum;
  return {s1, s2};
}

constexpr Pair kThird{0x1.5555555555555p-2, 0x1.5555555555555p-56};

// 1/(2 First + 1) + z/(2 First + 3) + z^2/(2 First + 5) + ..., enough terms for z < 0.0295.
template <std::size_t First>
double odd_series(double z) {
  double sum = 0.0;
  for (std::size_t n = kOverOdd.size(); n-- > First;) {
    sum = sum * z + kOverOdd[n];
  }
  return sum;
}

// log of a positive number to about 65 bits.
Pair long_log(double x) {
  const auto [mantissa, exponent] = take_apart(x);
  const Pair halves = half_way(mantissa);
  const Pair s = ordered_sum(halves.high, halves.low);
  const Pair square = s * s;
  const Pair series = kThird + Pair{square.high * odd_series<2>(square.high)};
  const Pair small = s + s * (square * series);
  const double k = exponent;
  const Pair whole = ordered_sum(k * kLn2First, k * kLn2Second);
  return (whole + Pair{2.0 * small.high, 2.0 * small.low}) + Pair{k * kLn2Third};
}

// 2^(j/8)
constexpr std::array<Pair, 8> kEighths{{{0x1.0000000000000p+0, 0.0},
                                        {0x1.172b83c7d517bp+0, -0x1.19041b9d78a76p-55},
                                        {0x1.306fe0a31b715p+0, 0x1.6f46ad23182e4p-55},
                                        {0x1.4bfdad5362a27p+0, 0x1.d4397afec42e2p-56},
                                        {0x1.6a09e667f3bcdp+0, -0x1.bdd3413b26456p-54},
                                        {0x1.8ace5422aa0dbp+0, 0x1.6e9f156864b27p-54},
                                        {0x1.ae89f995ad3adp+0, 0x1.7a1cd345dcc81p-54},
                                        {0x1.d5818dcfba487p+0, 0x1.2ed02d75b3707p-55}}};

// The exponents for which exp is neither infinite nor zero lie inside.
constexpr double kMostExponent = 710.0;
constexpr double kLeastExponent = -746.0;

// value * 2^power
struct Scaled {
  Pair value;
  int power;
};

// exp(x.high + x.low), where x.high lies within the limits above.
Scaled scaled_exp(Pair x) {
  constexpr double kEighthsPerUnit = 0x1.71547652b82fep+3;  // 8 / ln 2
  const double steps = std::floor(x.high * kEighthsPerUnit + 0.5);
  const auto whole = static_cast<int>(steps);
  // |rest| < 0.0434. The first product is exact, and so is the difference.
  const double first = x.high - steps * (kLn2First / 8);
  const Pair rest = exact_sum(first, -steps * (kLn2Second / 8));
  const double low = rest.low + (x.low - steps * (kLn2Third / 8));
  const double r = rest.high;
  double series = 0.0;
  for (std::size_t n = 9; n >= 2; --n) {
    series = series * r + kOverFactorial[n];
  }
  const double more = r + (low + r * low + r * r * series);  // exp(rest) - 1
  const Pair eighth = kEighths[static_cast<std::size_t>(whole & 7)];
  return {ordered_sum(eighth.high, eighth.low + eighth.high * more), whole >> 3};
}

double finish(Scaled scaled) {
  return scale(scaled.value.high, scaled.power);
}

double long_exp(Pair x) {
  if (x.high > kMostExponent) {
    return kInfinity;
  }
  if (x.high < kLeastExponent) {
    return 0.0;
  }
  return finish(scaled_exp(x));
}

// pi / 2 in pieces; the first three have 30 bits.
constexpr double kQuarter1 = 0x1.921fb54000000p+0;
constexpr double kQuarter2 = 0x1.10b4611800000p-30;
constexpr double kQuarter3 = 0x1.313198a000000p-61;
constexpr double kQuarter4 = 0x1.701b839a25205p-92;
constexpr double kLargestAngle = 0x1.0p20;

// x = rest + quarters * pi/2 with |rest| <= pi/4.
struct Angle {
  Pair rest;
  unsigned quarters;
};

Angle reduce(double x) {
  constexpr double kQuartersPerUnit = 0x1.45f306dc9c883p-1;  // 2 / pi
  const double quarters = std::floor(x * kQuartersPerUnit + 0.5);
  const double first = x - quarters * kQuarter1;  // exact
  const Pair second = exact_sum(first, -quarters * kQuarter2);
  const Pair third = exact_sum(second.high, -quarters * kQuarter3);
  const double low = (second.low + third.low) - quarters * kQuarter4;
  return {ordered_sum(third.high, low),
          static_cast<unsigned>(static_cast<std::int64_t>(quarters) & 3)};
}

double small_sin(Pair x) {
  const double square = x.high * x.high;
  double series = 0.0;
  for (std::size_t n = 19; n >= 3; n -= 2) {
    series = kOverFactorial[n] - square * series;
  }
  return x.high + (x.low * (1.0 - 0.5 * square) - x.high * square * series);
}

double small_cos(Pair x) {
  const double square = x.high * x.high;
  double series = 0.0;
  for (std::size_t n = 18; n >= 4; n -= 2) {
    series = kOverFactorial[n] - square * series;
  }
  const Pair front = ordered_sum(1.0, -0.5 * square);
  return front.high + (front.low + (square * square * series - x.high * x.low));
}

// sin(x + quarters * pi/2)
double turned_sin(double x, unsigned quarters) {
  if (!(std::fabs(x) <= kLargestAngle)) {
    return kNan;
  }
  const Angle angle = reduce(x);
  const unsigned turn = (angle.quarters + quarters) & 3;
  const double value = (turn & 1) == 0 ? small_sin(angle.rest) : small_cos(angle.rest);
  return turn < 2 ? value : -value;
}

// erf(x) = 2 / sqrt(pi) * x (1 - x^2/3 + x^4/10 - ...), for |x| < 0.75.
Pair small_erf(double x) {
  constexpr Pair kTwoOverRootPi{0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56};
  const Pair square = exact_product(x, x);
  double series = 0.0;
  for (std::size_t n = kErf.size(); n-- > 0;) {
    series = kErf[n] - square.high * series;
  }
  const Pair rest = square * (kThird + Pair{-square.high * series});
  return kTwoOverRootPi * Pair{x} * (Pair{1.0} + Pair{-rest.high, -rest.low});
}

// (1 + 2x) exp(x^2) erfc(x) for 0.75 <= x <= 28, as a polynomial in a number that goes from -1
// to 1.
Pair bent_erfc(double x) {
  constexpr Pair kFirst{0x1.3d16f401847eep+0, 0x1.a248b03c8673ap-54};
  constexpr std::array<double, 23> kRest{
      -0x1.98654bb8e18dap-4,  -0x1.d05d78b628563p-8,  0x1.f0a32a789eb71p-6,  -0x1.5f6bf278f4a9ap-6,
      0x1.31c1c6e71c94ep-7,   -0x1.54126f58e4846p-9,  0x1.512a1465b2ea5p-12, 0x1.1d152f766d52dp-14,
      -0x1.1fb7b99304fdbp-15, 0x1.0ea1c49f6d28fp-20,  0x1.406a019810771p-19, -0x1.495481b6c4192p-22,
      -0x1.7c990a5fd2cb4p-23, 0x1.1e58c1108881ep-25,  0x1.0e6fd8bb291f0p-26, -0x1.996989e3a81a4p-29,
      -0x1.c6d10ac6d5d63p-30, 0x1.de4103cc46012p-33,  0x1.9cfaf4d2c9425p-33, -0x1.4b354d84bdb35p-37,
      -0x1.58bb877b34b03p-36, -0x1.ed0dc1aef41adp-44, 0x1.74593a569dd7bp-40};
  const double place = (139.0 * x - 513.0) / (109.0 * (x + 3.0));
  double series = 0.0;
  for (std::size_t n = kRest.size(); n-- > 0;) {
    series = kRest[n] + place * series;
  }
  return ordered_sum(kFirst.high, kFirst.low + place * series);
}

double large_erfc(double x) {
  const Pair square = exact_product(x, x);
  const Scaled bell = scaled_exp({-square.high, -square.low});
  return finish({bell.value * bent_erfc(x) / exact_sum(1.0, 2.0 * x), bell.power});
}

}  // namespace

double exp(double x) {
  return std::isnan(x) ? x : long_exp({x});
}

double log(double x) {
  if (!(x > 0.0)) {
    return x == 0.0 ? -kInfinity : kNan;
  }
  if (x == kInfinity) {
    return x;
  }
  const auto [mantissa, exponent] = take_apart(x);
  const Pair halves = half_way(mantissa);
  const double s = halves.high + halves.low;
  const double z = s * s;
  const double rest = 2.0 * (halves.low + s * z * odd_series<1>(z));
  const double k = exponent;
  const Pair sum = ordered_sum(k * kLn2First, 2.0 * halves.high);
  return sum.high + (sum.low + (rest + k * (kLn2Second + kLn2Third)));
}

double pow(double base, double exponent) {
  if (exponent == 0.0 || base == 1.0) {
    return 1.0;
  }
  if (std::isnan(base) || std::isnan(exponent)) {
    return kNan;
  }
  const bool whole = std::floor(exponent) == exponent;
  const bool odd = whole && std::floor(exponent * 0.5) != exponent * 0.5;
  if (base == 0.0 || std::isinf(base)) {
    const double size = (base == 0.0) == (exponent > 0.0) ? 0.0 : kInfinity;
    return odd ? std::copysign(size, base) : size;
  }
  if (std::isinf(exponent)) {
    const double size = std::fabs(base);
    return size == 1.0 ? 1.0 : ((size > 1.0) == (exponent > 0.0) ? kInfinity : 0.0);
  }
  if (base < 0.0 && !whole) {
    return kNan;
  }
  const Pair logarithm = long_log(std::fabs(base));
  const double rough = exponent * logarithm.high;
  double size = 0.0;
  if (!(std::fabs(rough) < 1000.0)) {  // the exact product could overflow
    size = rough > 0.0 ? kInfinity : 0.0;
  } else if (std::fabs(rough) < 0x1.0p-60) {  // and here underflow
    size = 1.0;
  } else {
    size = long_exp(Pair{exponent} * logarithm);
  }
  return base < 0.0 && odd ? -size : size;
}

double sin(double x) {
  return x == 0.0 ? x : turned_sin(x, 0);
}

double cos(double x) {
  return turned_sin(x, 1);
}

double erfc(double x) {
  if (std::isnan(x)) {
    return x;
  }
  if (x > 27.3) {
    return 0.0;
  }
  if (x < -6.0) {
    return 2.0;
  }
  if (std::fabs(x) < 0x1.0p-60) {
    return 1.0;
  }
  if (x >= 0.75) {
    return large_erfc(x);
  }
  if (x <= -0.75) {
    return 2.0 - large_erfc(-x);
  }
  const Pair erf = small_erf(x);
  const Pair complement = Pair{1.0} + Pair{-erf.high, -erf.low};
  return complement.high + complement.low;
}

}  // namespace winnow::math

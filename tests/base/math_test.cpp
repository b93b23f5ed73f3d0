#include "winnow/base/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "winnow/base/random.h"

namespace winnow::math_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kSmallest = std::numeric_limits<double>::denorm_min();

// How far a value is from the truth, in units of the last place of the truth.
double ulps(double value, long double truth) {
  const auto rounded = static_cast<double>(truth);
  if (std::isinf(rounded) || std::isinf(value)) {
    return value == rounded ? 0.0 : kInfinity;
  }
  const double next = std::nextafter(std::fabs(rounded), kInfinity);
  const long double unit = next - std::fabs(rounded);
  return static_cast<double>(std::fabs(static_cast<long double>(value) - truth) / unit);
}

template <typename Ours, typename Truth>
double worst(double low, double high, Ours ours, Truth truth) {
  Stream stream(11, "math");
  double most = 0.0;
  for (int i = 0; i < 20'000; ++i) {
    const double x = stream.uniform(low, high);
    const double error = ulps(ours(x), truth(static_cast<long double>(x)));
    if (!(error <= most)) {
      most = error;
    }
  }
  return most;
}

// Numbers of all sizes: 2^low .. 2^high.
template <typename Ours, typename Truth>
double worst_of_all_sizes(double low, double high, Ours ours, Truth truth) {
  const auto power = [](auto f) {
    return [f](auto x) {
      const double size = std::exp2(static_cast<double>(x));
      return f(static_cast<decltype(x)>(size));
    };
  };
  return worst(low, high, power(ours), power(truth));
}

TEST(Math, LogIsWithinOneUnitInTheLastPlace) {
  const auto truth = [](long double x) { return std::log(x); };
  EXPECT_LT(worst(0.0, 1.0, math::log, truth), 0.7);
  EXPECT_LT(worst(0.9, 1.1, math::log, truth), 0.7);
  EXPECT_LT(worst(0.999999, 1.000001, math::log, truth), 0.7);
  EXPECT_LT(worst(0.5, 100.0, math::log, truth), 0.7);
  EXPECT_LT(worst_of_all_sizes(-1074.0, 1023.9, math::log, truth), 0.7);
}

TEST(Math, ExpIsWithinOneUnitInTheLastPlace) {
  const auto truth = [](long double x) { return std::exp(x); };
  EXPECT_LT(worst(-1.0, 1.0, math::exp, truth), 0.8);
  EXPECT_LT(worst(-700.0, 709.7, math::exp, truth), 0.8);
  EXPECT_LT(worst(-750.0, -700.0, math::exp, truth), 1.0);
  EXPECT_LT(worst_of_all_sizes(-60.0, 9.0, math::exp, truth), 0.8);
}

TEST(Math, PowIsWithinOneUnitInTheLastPlace) {
  for (const double exponent : {0.5, 3.0, 10.0, -1.37, 100.0, 0.001, 33.3, -250.5}) {
    const auto ours = [exponent](double x) { return math::pow(x, exponent); };
    const auto truth = [exponent](long double x) {
      return std::pow(x, static_cast<long double>(exponent));
    };
    EXPECT_LT(worst(0.0, 1.0, ours, truth), 0.9) << exponent;
    EXPECT_LT(worst(0.9, 1.1, ours, truth), 0.9) << exponent;
    EXPECT_LT(worst(0.5, 50.0, ours, truth), 0.9) << exponent;
  }
  for (const double base : {0.9, 0.998, 0.5, 1e-300, 17.0}) {
    const auto ours = [base](double x) { return math::pow(base, x); };
    const auto truth = [base](long double x) {
      return std::pow(static_cast<long double>(base), x);
    };
    EXPECT_LT(worst(-900.0, 900.0, ours, truth), 1.0) << base;
  }
}

TEST(Math, SineAndCosineAreWithinOneUnitInTheLastPlace) {
  const auto sine = [](long double x) { return std::sin(x); };
  const auto cosine = [](long double x) { return std::cos(x); };
  for (const double limit : {0.01, 0.8, 6.3, 100.0, 1e6}) {
    EXPECT_LT(worst(-limit, limit, math::sin, sine), 0.9) << limit;
    EXPECT_LT(worst(-limit, limit, math::cos, cosine), 0.9) << limit;
  }
  // The doubles next to pi and pi/2; the values are known to all digits.
  EXPECT_EQ(math::sin(0x1.921fb54442d18p+1), 1.2246467991473532e-16);
  EXPECT_EQ(math::cos(0x1.921fb54442d18p+0), 6.123233995736766e-17);
}

TEST(Math, ErfcIsWithinOneUnitInTheLastPlace) {
  const auto truth = [](long double x) { return std::erfc(x); };
  EXPECT_LT(worst(-6.5, 0.0, math::erfc, truth), 0.8);
  EXPECT_LT(worst(0.0, 3.0, math::erfc, truth), 0.8);
  EXPECT_LT(worst(0.7, 0.8, math::erfc, truth), 0.8);
  EXPECT_LT(worst(3.0, 26.0, math::erfc, truth), 0.9);
  EXPECT_LT(worst(26.0, 28.0, math::erfc, truth), 1.0);
}

TEST(Math, SpecialValuesAreThoseOfTheStandard) {
  EXPECT_EQ(math::log(0.0), -kInfinity);
  EXPECT_EQ(math::log(1.0), 0.0);
  EXPECT_EQ(math::log(kInfinity), kInfinity);
  EXPECT_EQ(math::log(kSmallest), std::log(kSmallest));
  EXPECT_TRUE(std::isnan(math::log(-1.0)));
  EXPECT_TRUE(std::isnan(math::log(kNan)));

  EXPECT_EQ(math::exp(0.0), 1.0);
  EXPECT_EQ(math::exp(-0.0), 1.0);
  EXPECT_EQ(math::exp(kInfinity), kInfinity);
  EXPECT_EQ(math::exp(-kInfinity), 0.0);
  EXPECT_EQ(math::exp(709.8), kInfinity);
  EXPECT_EQ(math::exp(-745.1), kSmallest);
  EXPECT_EQ(math::exp(-745.2), 0.0);
  EXPECT_EQ(math::exp(kSmallest), 1.0);
  EXPECT_TRUE(std::isnan(math::exp(kNan)));

  EXPECT_TRUE(std::signbit(math::sin(-0.0)));
  EXPECT_EQ(math::sin(kSmallest), kSmallest);
  EXPECT_EQ(math::cos(0.0), 1.0);
  EXPECT_TRUE(std::isnan(math::sin(kInfinity)));
  EXPECT_TRUE(std::isnan(math::cos(kNan)));
  EXPECT_TRUE(std::isnan(math::cos(1e7))) << "out of range";

  EXPECT_EQ(math::erfc(0.0), 1.0);
  EXPECT_EQ(math::erfc(kInfinity), 0.0);
  EXPECT_EQ(math::erfc(-kInfinity), 2.0);
  EXPECT_TRUE(std::isnan(math::erfc(kNan)));
}

TEST(Math, PowHasTheSpecialValuesOfTheStandard) {
  const double values[] = {0.0,       -0.0,       1.0,       -1.0,       2.0,  -2.0,  3.0,
                           -3.0,      0.5,        -0.5,      0.1,        -2.5, 1e300, 1e-9,
                           kSmallest, -kSmallest, kInfinity, -kInfinity, kNan};
  for (const double base : values) {
    for (const double exponent : values) {
      const double expected = std::pow(base, exponent);
      const double value = math::pow(base, exponent);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value)) << base << " ^ " << exponent;
      } else {
        EXPECT_LE(ulps(value, expected), 1.0) << base << " ^ " << exponent;
        EXPECT_EQ(std::signbit(value), std::signbit(expected)) << base << " ^ " << exponent;
      }
    }
  }
}

}  // namespace winnow::math_test

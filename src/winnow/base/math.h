// Elementary functions that give the same bits on every machine. Those of the C library do not: it
// chooses a variant by CPU, and they change between its versions. These use only + - * / and sqrt,
// which IEEE 754 fixes to the last bit. The error is below one unit in the last place.
#pragma once

namespace winnow::math {

double exp(double x);
double log(double x);  // of a negative number: NaN; of zero: -infinity
double pow(double base, double exponent);
// For |x| up to a million; NaN beyond.
double sin(double x);
double cos(double x);
double erfc(double x);

}  // namespace winnow::math

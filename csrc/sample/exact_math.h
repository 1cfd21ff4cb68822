// Logarithm and exponential from additions, multiplications and divisions alone, each rounded on its own, so that
// every machine gives the same bits: the mathematics libraries of two systems differ in the last place, and a
// sampled token must not. Relative error below 1e-15 where the result is not near 0.
#pragma once

#include <cmath>

namespace muser {

inline constexpr double kLn2 = 0.6931471805599453;

// The natural logarithm of a positive finite number.
inline double exact_log(double x) {
    // x = m * 2^e, m in [sqrt(1/2), sqrt(2)); log(m) = 2 * atanh(f), f = (m - 1) / (m + 1).
    int e = 0;
    double m = std::frexp(x, &e);
    if (m < 0.7071067811865476) {
        m *= 2;
        --e;
    }
    const double f = (m - 1) / (m + 1);
    const double f2 = f * f;
    double sum = 1.0 / 23;
    for (int k = 21; k >= 1; k -= 2)
        sum = sum * f2 + 1.0 / k;
    return 2 * f * sum + e * kLn2;
}

// e^x; beyond +-700 as at +-700.
inline double exact_exp(double x) {
    x = x > 700 ? 700 : (x < -700 ? -700 : x);
    // e^x = 2^n * e^r, |r| <= ln(2) / 2; ln(2) is split so that n times its first part is exact.
    const double n = std::floor(x * 1.4426950408889634 + 0.5);
    const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double sum = 1.0 / 6227020800.0;
    double factorial = 6227020800.0;
    for (int k = 13; k >= 1; --k) {
        factorial /= k;
        sum = sum * r + 1.0 / factorial;
    }
    return std::ldexp(sum, static_cast<int>(n));
}

// x^y for x in (0, 1]; 0^y is 0, and x^1 is x itself.
inline double exact_pow(double x, double y) {
    if (y == 1 || x == 0)
        return x;
    return exact_exp(y * exact_log(x));
}

} // namespace muser

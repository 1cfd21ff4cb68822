// exact_fma, as the baseline compiles it, gives the bits of std::fma.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "device/cpu/exact_fma.h"

using namespace muser::cpu;

namespace {

// The number of wrong results so far; a million assertions would take longer than the arithmetic.
int wrong = 0;

void check(float a, float b, float c) {
    const float expected = std::fma(a, b, c), actual = exact_fma(a, b, c);
    if (std::isnan(expected) && std::isnan(actual))
        return;
    if (std::bit_cast<uint32_t>(expected) != std::bit_cast<uint32_t>(actual) && ++wrong <= 10)
        MESSAGE("fma(" << a << ", " << b << ", " << c << ") is " << expected << ", not " << actual);
}

} // namespace

TEST_CASE("any bit patterns") {
    std::mt19937 rng(1);
    const auto any = [&] { return std::bit_cast<float>(static_cast<uint32_t>(rng())); };
    for (int i = 0; i < 1000000; ++i)
        check(any(), any(), any());
    CHECK(wrong == 0);
}

TEST_CASE("sums near a tie, a cancellation or the end of the range") {
    std::mt19937 rng(2);
    const auto few_bits = [&] { // few significant bits: ties are common
        const float value = std::ldexp(static_cast<float>(rng() % 64 + 1), static_cast<int>(rng() % 60) - 30);
        return rng() % 2 ? value : -value;
    };
    for (int i = 0; i < 1000000; ++i) {
        const float a = few_bits() * (1.0f + 0x1p-23f * static_cast<float>(rng() % 4)), b = few_bits();
        check(a, b, few_bits());
        check(a, b, -(a * b));
        check(a, b, std::nextafter(-(a * b), 0.0f));
        check(a, 0x1p-120f, b * 0x1p-140f);                     // subnormal results
        check(a * 0x1p60f, b * 0x1p60f, few_bits() * 0x1p100f); // overflows
    }
    CHECK(wrong == 0);
}

TEST_CASE("zeros, infinities and NaN") {
    const float values[] = {0.0f,
                            -0.0f,
                            1.0f,
                            -1.0f,
                            0x1p-149f,
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::nanf("")};
    for (const float a : values)
        for (const float b : values)
            for (const float c : values)
                check(a, b, c);
    CHECK(wrong == 0);
}

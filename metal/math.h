// exp, sigmoid, tanh and what is made of them, by the CPU device's polynomials (csrc/device/cpu/vector_math.h): accurate
// to the last bits whatever the GPU's own functions are.
#pragma once

#include "common.h"

METAL_FUNC float power_of_two(float n) { return as_type<float>(uint(int(n) + 127) << 23); }

// Below 1 ulp where the result is normal; exactly 0 from about -104 down.
METAL_FUNC float fixed_exp(float x) {
    x = x < -150.0f ? -150.0f : x;
    x = x > 100.0f ? 100.0f : x;
    const float n = rint(x * 1.44269502f);
    float r = fma(n, -0.693145752f, x); // ln 2 cut to 15 bits: n * this is exact
    r = fma(n, -1.42860677e-6f, r);
    float p = 0.00138131424f;
    p = fma(p, r, 0.00836941879f);
    p = fma(p, r, 0.041668456f);
    p = fma(p, r, 0.166665152f);
    p = fma(p, r, 0.49999994f);
    p = fma(p, r * r, r) + 1.0f;
    // 2^n in two factors: n = 128 does not overflow early, and subnormal results are rounded once.
    const float half_n = rint(n * 0.5f);
    return p * power_of_two(half_n) * power_of_two(n - half_n);
}

METAL_FUNC float sigmoid(float x) {
    const float e = fixed_exp(-fabs(x)); // cannot overflow
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

METAL_FUNC float silu(float x) { return x * sigmoid(x); }

// 0.5 x (1 + tanh(u)) = x sigmoid(2u): no cancellation for negative x.
METAL_FUNC float gelu_tanh(float x) { return x * sigmoid(fma(x * x, 0.044715f, 1.0f) * x * 1.59576912f); }

METAL_FUNC float fixed_tanh(float x) {
    const float a = fabs(x), z = x * x;
    float p = 0.002147533f;
    p = fma(p, z, -0.00818266906f);
    p = fma(p, z, 0.0217029657f);
    p = fma(p, z, -0.0539472029f);
    p = fma(p, z, 0.133332103f);
    p = fma(p, z, -0.333333313f);
    const float near_zero = fma(p * z, x, x); // the exponential form would cancel
    const float e = fixed_exp(a * -2.0f);
    const float far = (1.0f - e) / (1.0f + e);
    return a < 0.625f ? near_zero : x < 0.0f ? -far : far;
}

// Functions of one float on an NVIDIA GPU, where there is no C library: from the hardware's base-2 functions.
#pragma once

namespace msl {
namespace scalar {
inline float exp2(float x) { return __nvvm_ex2_approx_ftz_f(x); }
inline float log2(float x) { return __nvvm_lg2_approx_ftz_f(x); }
inline float exp(float x) { return exp2(x * 1.44269504088896340736f); }
inline float exp10(float x) { return exp2(x * 3.32192809488736234787f); }
inline float log(float x) { return log2(x) * 0.69314718055994530942f; }
inline float log10(float x) { return log2(x) * 0.30102999566398119521f; }
inline float sqrt(float x) { return __nvvm_sqrt_rn_f(x); }
inline float rsqrt(float x) { return 1.0f / __nvvm_sqrt_rn_f(x); }
inline float sin(float x) { return __nvvm_sin_approx_ftz_f(x); }
inline float cos(float x) { return __nvvm_cos_approx_ftz_f(x); }
inline float tan(float x) { return sin(x) / cos(x); }
inline float tanh(float x) { return 1.0f - 2.0f / (exp(2.0f * x) + 1.0f); }
inline float sinh(float x) { return 0.5f * (exp(x) - exp(-x)); }
inline float cosh(float x) { return 0.5f * (exp(x) + exp(-x)); }
inline float floor(float x) { return __builtin_floorf(x); }
inline float ceil(float x) { return __builtin_ceilf(x); }
inline float trunc(float x) { return __builtin_truncf(x); }
inline float rint(float x) { return __builtin_rintf(x); }
inline float fabs(float x) { return __builtin_fabsf(x); }
inline float round(float x) { return trunc(x + __builtin_copysignf(0.5f, x)); }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float pow(float a, float b) { return exp2(b * log2(a)); }
} // namespace scalar
} // namespace msl

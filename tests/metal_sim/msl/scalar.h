// Functions of one float, through the compiler's builtins and the C library. scalar_ptx.h is the GPU's.
// No <cmath>: with `using namespace metal`, ::exp and ::abs would be ambiguous.
#pragma once

namespace msl {
namespace scalar {
#define MSL_SCALAR(NAME, BUILTIN) \
    inline float NAME(float x) { return BUILTIN(x); }
MSL_SCALAR(exp, __builtin_expf)
MSL_SCALAR(exp2, __builtin_exp2f)
MSL_SCALAR(exp10, __builtin_exp10f)
MSL_SCALAR(log, __builtin_logf)
MSL_SCALAR(log2, __builtin_log2f)
MSL_SCALAR(log10, __builtin_log10f)
MSL_SCALAR(sqrt, __builtin_sqrtf)
MSL_SCALAR(sin, __builtin_sinf)
MSL_SCALAR(cos, __builtin_cosf)
MSL_SCALAR(tan, __builtin_tanf)
MSL_SCALAR(tanh, __builtin_tanhf)
MSL_SCALAR(sinh, __builtin_sinhf)
MSL_SCALAR(cosh, __builtin_coshf)
MSL_SCALAR(floor, __builtin_floorf)
MSL_SCALAR(ceil, __builtin_ceilf)
MSL_SCALAR(round, __builtin_roundf)
MSL_SCALAR(rint, __builtin_rintf)
MSL_SCALAR(trunc, __builtin_truncf)
MSL_SCALAR(fabs, __builtin_fabsf)
#undef MSL_SCALAR
inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float pow(float a, float b) { return __builtin_powf(a, b); }
} // namespace scalar
} // namespace msl

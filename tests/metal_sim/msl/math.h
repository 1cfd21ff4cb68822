// Metal's mathematical, common, integer and relational functions, for scalars and component-wise for vectors.
// A function of half computes in float and rounds once.
#pragma once

namespace metal {

#define MSL_UNARY(NAME)                                                                            \
    inline float NAME(float x) { return ::msl::scalar::NAME(x); }                                  \
    inline half NAME(half x) { return static_cast<half>(::msl::scalar::NAME(static_cast<float>(x))); } \
    template <class T, int N> inline vec<T, N> NAME(vec<T, N> v) {                                 \
        vec<T, N> r{};                                                                             \
        for (int i = 0; i < N; ++i) r[i] = NAME(static_cast<T>(v[i]));                             \
        return r;                                                                                  \
    }
#define MSL_ALL_UNARY(X)                                                                              \
    X(exp) X(exp2) X(exp10) X(log) X(log2) X(log10) X(sqrt) X(rsqrt) X(sin) X(cos) X(tan) X(tanh) X(sinh) \
    X(cosh) X(floor) X(ceil) X(round) X(rint) X(trunc) X(fabs)
MSL_ALL_UNARY(MSL_UNARY)
#undef MSL_UNARY

inline float pow(float a, float b) { return ::msl::scalar::pow(a, b); }
inline float powr(float a, float b) { return ::msl::scalar::pow(a, b); }
inline float fma(float a, float b, float c) { return ::msl::scalar::fma(a, b, c); }
inline half fma(half a, half b, half c) { return static_cast<half>(::msl::scalar::fma(a, b, c)); }
template <class T, int N> inline vec<T, N> fma(vec<T, N> a, vec<T, N> b, vec<T, N> c) {
    vec<T, N> r{};
    for (int i = 0; i < N; ++i) r[i] = fma(static_cast<T>(a[i]), static_cast<T>(b[i]), static_cast<T>(c[i]));
    return r;
}
inline float fmod(float a, float b) { return a - b * trunc(a / b); }
inline float fract(float x) { return x - floor(x); }
inline float sincos(float x, float &c) {
    c = cos(x);
    return sin(x);
}
inline float ldexp(float x, int n) { return x * exp2(static_cast<float>(n)); }
inline float copysign(float a, float b) { return __builtin_copysignf(a, b); }
inline float sign(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f; }

// From the bits, so that -ffast-math cannot decide that there is no NaN.
inline bool isnan(float x) { return (__builtin_bit_cast(uint, x) & 0x7fffffffu) > 0x7f800000u; }
inline bool isinf(float x) { return (__builtin_bit_cast(uint, x) & 0x7fffffffu) == 0x7f800000u; }
inline bool isfinite(float x) { return (__builtin_bit_cast(uint, x) & 0x7fffffffu) < 0x7f800000u; }

template <class T> inline T min(T a, T b) {
    if constexpr (::msl::vector_traits<T>::size == 1) {
        return b < a ? b : a;
    } else {
        for (int i = 0; i < ::msl::vector_traits<T>::size; ++i) a[i] = b[i] < a[i] ? b[i] : a[i];
        return a;
    }
}
template <class T> inline T max(T a, T b) {
    if constexpr (::msl::vector_traits<T>::size == 1) {
        return a < b ? b : a;
    } else {
        for (int i = 0; i < ::msl::vector_traits<T>::size; ++i) a[i] = a[i] < b[i] ? b[i] : a[i];
        return a;
    }
}
template <class T> inline T clamp(T x, T low, T high) { return min(max(x, low), high); }
template <class T, int N> inline vec<T, N> clamp(vec<T, N> x, T low, T high) {
    for (int i = 0; i < N; ++i) x[i] = clamp(static_cast<T>(x[i]), low, high);
    return x;
}
inline float fmin(float a, float b) { return min(a, b); }
inline float fmax(float a, float b) { return max(a, b); }
template <class T> inline T saturate(T x) { return clamp(x, static_cast<T>(0), static_cast<T>(1)); }
template <class T> inline T mix(T a, T b, T t) { return a + (b - a) * t; }
template <class T> inline T abs(T a) {
    if constexpr (::msl::vector_traits<T>::size == 1) {
        return a < 0 ? static_cast<T>(-a) : a;
    } else {
        for (int i = 0; i < ::msl::vector_traits<T>::size; ++i) a[i] = a[i] < 0 ? -a[i] : a[i];
        return a;
    }
}
template <class T> inline T select(T a, T b, bool c) { return c ? b : a; }
template <class T, class B, int N> inline vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<B, N> c) {
    for (int i = 0; i < N; ++i) a[i] = c[i] ? b[i] : a[i];
    return a;
}
template <class B, int N> inline bool any(vec<B, N> v) {
    bool found = false;
    for (int i = 0; i < N; ++i) found = found || v[i];
    return found;
}
template <class B, int N> inline bool all(vec<B, N> v) {
    bool every = true;
    for (int i = 0; i < N; ++i) every = every && v[i];
    return every;
}

template <class T, int N> inline T dot(vec<T, N> a, vec<T, N> b) {
    T sum = a[0] * b[0];
    for (int i = 1; i < N; ++i) sum += a[i] * b[i];
    return sum;
}
template <class T, int N> inline T length_squared(vec<T, N> a) { return dot(a, a); }
template <class T, int N> inline T length(vec<T, N> a) { return sqrt(dot(a, a)); }

inline int popcount(uint v) { return __builtin_popcount(v); }
inline int popcount(ulong v) { return __builtin_popcountl(v); }
inline uint clz(uint v) { return v ? static_cast<uint>(__builtin_clz(v)) : 32; }
inline uint ctz(uint v) { return v ? static_cast<uint>(__builtin_ctz(v)) : 32; }
template <class T> inline T extract_bits(T v, uint offset, uint bits) {
    return bits ? static_cast<T>((v >> offset) & ((static_cast<T>(1) << bits) - 1)) : 0;
}
inline uint rotate(uint v, uint n) { return __builtin_rotateleft32(v, n); }
inline uint mulhi(uint a, uint b) { return static_cast<uint>((static_cast<ulong>(a) * b) >> 32); }

// Metal has a precise and a fast form of these; here both are the C library's.
#define MSL_USING(NAME) using metal::NAME;
namespace precise {
MSL_ALL_UNARY(MSL_USING)
using metal::pow;
using metal::powr;
using metal::sincos;
} // namespace precise
namespace fast {
MSL_ALL_UNARY(MSL_USING)
using metal::clamp;
using metal::max;
using metal::min;
using metal::pow;
using metal::powr;
using metal::sincos;
} // namespace fast
#undef MSL_USING
#undef MSL_ALL_UNARY

} // namespace metal

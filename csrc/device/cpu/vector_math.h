// exp, sigmoid, tanh over f32x16: one sequence of operations, so the same bits at every level.
// Included by ops_<level>.cpp after its simd header, into that level's anonymous namespace.
// Coefficients: minimax fits over the reduced range (weighted least squares, Lawson's iteration, in double).
namespace muser::cpu::MUSER_LEVEL {
namespace {

constexpr float kRoundMagic = 0x1.8p23f; // adding it rounds to an integer, to nearest even

#if !defined(MUSER_OWN_TIMES_EXP2)
// p 2^n for p near 1 and an integer n: in two factors, so that n = 128 does not overflow early and a subnormal
// result is rounded once.
inline f32x16 times_exp2(f32x16 p, f32x16 n) {
    const f32x16 half = fma(n, set1(0.5f), set1(kRoundMagic));
    const f32x16 n1 = half - set1(kRoundMagic);
    const f32x16 rest = (n - n1) + set1(kRoundMagic);
    return p * exp2_of_biased(half) * exp2_of_biased(rest);
}
#endif

// Over the whole float range: below 1 ulp where the result is a normal number, exact zero from about
// -103.98 down, infinity from about 88.73 up, NaN stays NaN. The sequence:
// n = round(x / ln 2); r = x - n ln 2 in two parts; e^r by a polynomial; times 2^n.
inline f32x16 exp(f32x16 x) {
    x = max(set1(-150.0f), x); // operand order lets NaN through
    x = min(set1(100.0f), x);
    const f32x16 n = fma(x, set1(0x1.715476p+0f), set1(kRoundMagic)) - set1(kRoundMagic);
    f32x16 r = fma(n, set1(-0x1.62e400p-1f), x); // ln 2 cut to 15 bits: n * this is exact
    r = fma(n, set1(-0x1.7f7d1cp-20f), r);
    f32x16 p = set1(0.00138131424f);
    p = fma(p, r, set1(0.00836941879f));
    p = fma(p, r, set1(0.041668456f));
    p = fma(p, r, set1(0.166665152f));
    p = fma(p, r, set1(0.49999994f));
    p = fma(p, r * r, r) + set1(1.0f);
    return times_exp2(p, n);
}

// By e^-|x|, which cannot overflow.
inline f32x16 sigmoid(f32x16 x) {
    const f32x16 e = exp(set1(0.0f) - abs(x));
    return where_less(x, set1(0.0f), e, set1(1.0f)) / (set1(1.0f) + e);
}

inline f32x16 silu(f32x16 x) { return x * sigmoid(x); }

// 0.5 x (1 + tanh(u)) = x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3): no cancellation for negative x.
inline f32x16 gelu_tanh(f32x16 x) {
    const f32x16 inner = fma(x * x, set1(0.044715f), set1(1.0f)) * x;
    return x * sigmoid(inner * set1(1.5957691216057308f));
}

// Near zero an odd polynomial (the exponential form would cancel), else (1 - e^-2|x|) / (1 + e^-2|x|).
inline f32x16 tanh(f32x16 x) {
    const f32x16 a = abs(x), z = x * x;
    f32x16 p = set1(0.002147533f);
    p = fma(p, z, set1(-0.00818266906f));
    p = fma(p, z, set1(0.0217029657f));
    p = fma(p, z, set1(-0.0539472029f));
    p = fma(p, z, set1(0.133332103f));
    p = fma(p, z, set1(-0.333333313f));
    const f32x16 small = fma(p * z, x, x);
    const f32x16 e = exp(a * set1(-2.0f));
    const f32x16 large = copysign((set1(1.0f) - e) / (set1(1.0f) + e), x);
    return where_less(a, set1(0.625f), small, large);
}

// The first n < 16 values, zeros above: a tail computes like a full vector.
inline f32x16 load_tail(const float *p, size_t n) {
    alignas(64) float lanes[16] = {};
    for (size_t i = 0; i < n; ++i)
        lanes[i] = p[i];
    return load(lanes);
}
inline void store_tail(float *p, f32x16 v, size_t n) {
    alignas(64) float lanes[16];
    store(lanes, v);
    for (size_t i = 0; i < n; ++i)
        p[i] = lanes[i];
}

// out[i] = f(a[i], b[i] ...): whole vectors, then one tail.
template <class F, class... In> inline void map(float *out, size_t n, F f, const In *...in) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        store(out + i, f(load(in + i)...));
    if (i < n)
        store_tail(out + i, f(load_tail(in + i, n - i)...), n - i);
}

} // namespace
} // namespace muser::cpu::MUSER_LEVEL

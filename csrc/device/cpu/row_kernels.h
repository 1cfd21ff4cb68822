// The ops on single rows: norms, activations, rope. Written once over f32x16.
// Included by ops_<level>.cpp after vector_math.h.
namespace muser::cpu::MUSER_LEVEL {
namespace {

void exp_row(const float *x, float *out, size_t n) {
    map(out, n, [](f32x16 v) { return exp(v); }, x);
}
void sigmoid_row(const float *x, float *out, size_t n) {
    map(out, n, [](f32x16 v) { return sigmoid(v); }, x);
}
void tanh_row(const float *x, float *out, size_t n) {
    map(out, n, [](f32x16 v) { return tanh(v); }, x);
}

// 1 / sqrt(mean(x^2) + eps): sixteen partial sums, then the one combine tree; exact root and division.
inline f32x16 rms_factor(const float *x, float eps, size_t n) {
    f32x16 squares = set1(0.0f);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const f32x16 v = load(x + i);
        squares = fma(v, v, squares);
    }
    if (i < n) {
        const f32x16 v = load_tail(x + i, n - i);
        squares = fma(v, v, squares);
    }
    return set1(1.0f / __builtin_sqrtf(sum(squares) / float(n) + eps));
}

void rms_norm(const float *x, const float *weight, float eps, float *out, size_t n) {
    const f32x16 factor = rms_factor(x, eps, n);
    if (weight)
        map(out, n, [=](f32x16 v, f32x16 w) { return v * factor * w; }, x, weight);
    else
        map(out, n, [=](f32x16 v) { return v * factor; }, x);
}

void add_rms_norm(float *x, const float *y, const float *weight, float eps, size_t n) {
    const f32x16 factor = rms_factor(y, eps, n);
    map(x, n, [=](f32x16 a, f32x16 b, f32x16 w) { return a + b * factor * w; }, static_cast<const float *>(x), y, weight);
}

void add(float *x, const float *y, size_t n) {
    map(x, n, [](f32x16 a, f32x16 b) { return a + b; }, static_cast<const float *>(x), y);
}

void scale(float *x, float factor, size_t n) {
    const f32x16 f = set1(factor);
    map(x, n, [=](f32x16 a) { return a * f; }, static_cast<const float *>(x));
}

void gate(float *x, const float *z, size_t n) {
    map(x, n, [](f32x16 a, f32x16 b) { return a * sigmoid(b); }, static_cast<const float *>(x), z);
}

void silu_glu(float *x, const float *up, size_t n) {
    map(x, n, [](f32x16 a, f32x16 b) { return silu(a) * b; }, static_cast<const float *>(x), up);
}

void gelu_tanh_glu(float *x, const float *up, size_t n) {
    map(x, n, [](f32x16 a, f32x16 b) { return gelu_tanh(a) * b; }, static_cast<const float *>(x), up);
}

void softcap(float *x, float cap, size_t n) {
    const f32x16 c = set1(cap);
    map(x, n, [=](f32x16 a) { return c * tanh(a / c); }, static_cast<const float *>(x));
}

// Rotates n_pairs pairs; every product and sum is rounded on its own.
void rope(float *x, const float *cosine, const float *sine, size_t n_pairs, bool halves) {
    size_t k = 0;
    if (halves) {
        for (; k + 16 <= n_pairs; k += 16) {
            const f32x16 a = load(x + k), b = load(x + n_pairs + k), c = load(cosine + k), s = load(sine + k);
            store(x + k, a * c - b * s);
            store(x + n_pairs + k, a * s + b * c);
        }
    } else {
        alignas(64) float signs[16];
        for (int i = 0; i < 16; ++i)
            signs[i] = i % 2 ? 1.0f : -1.0f;
        const f32x16 sign = load(signs);
        for (; k + 8 <= n_pairs; k += 8) {
            const f32x16 pairs = load(x + 2 * k);
            store(x + 2 * k, pairs * load_twice(cosine + k) + swap_lanes<1>(pairs) * (load_twice(sine + k) * sign));
        }
    }
    const size_t step = halves ? 1 : 2, other = halves ? n_pairs : 1;
    for (; k < n_pairs; ++k) {
        const float a = x[k * step], b = x[k * step + other];
        x[k * step] = a * cosine[k] - b * sine[k];
        x[k * step + other] = a * sine[k] + b * cosine[k];
    }
}

} // namespace
} // namespace muser::cpu::MUSER_LEVEL

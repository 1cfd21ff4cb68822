// Interleaving the lanes of a packed unit: from [lanes][n] items, a lane's together, to [n][lanes], item by item.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace muser::cpu {

// Four words of each of four lanes: in[l][w] to out[w][l].
inline void transpose_4x4(const uint32_t *in, int in_stride, uint32_t *out, int out_stride) {
#if defined(__SSE2__)
    const auto load = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(in + i * in_stride)); };
    const auto store = [&](int i, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i *>(out + i * out_stride), v); };
    const __m128i a = load(0), b = load(1), c = load(2), d = load(3);
    const __m128i ab01 = _mm_unpacklo_epi32(a, b), cd01 = _mm_unpacklo_epi32(c, d);
    const __m128i ab23 = _mm_unpackhi_epi32(a, b), cd23 = _mm_unpackhi_epi32(c, d);
    store(0, _mm_unpacklo_epi64(ab01, cd01));
    store(1, _mm_unpackhi_epi64(ab01, cd01));
    store(2, _mm_unpacklo_epi64(ab23, cd23));
    store(3, _mm_unpackhi_epi64(ab23, cd23));
#elif defined(__ARM_NEON)
    uint32x4x4_t words; // vst4 would interleave, vld4 takes apart: of rows that lie together
    uint32_t rows[16];
    for (int i = 0; i < 4; ++i)
        vst1q_u32(rows + 4 * i, vld1q_u32(in + i * in_stride));
    words = vld4q_u32(rows);
    for (int i = 0; i < 4; ++i)
        vst1q_u32(out + i * out_stride, words.val[i]);
#else
    for (int w = 0; w < 4; ++w)
        for (int l = 0; l < 4; ++l)
            out[w * out_stride + l] = in[l * in_stride + w];
#endif
}

template <int lanes, int n> void interleave(const uint32_t (&in)[lanes][n], uint32_t *out) {
    constexpr int whole = n / 4 * 4;
    for (int w = 0; w < whole; w += 4)
        for (int l = 0; l < lanes; l += 4)
            transpose_4x4(&in[l][w], n, out + w * lanes + l, lanes);
    for (int w = whole; w < n; ++w)
        for (int l = 0; l < lanes; ++l)
            out[w * lanes + l] = in[l][w];
}

template <int lanes, int n> void interleave(const uint16_t (&in)[lanes][n], uint16_t *out) {
    for (int h = 0; h < n; ++h)
        for (int l = 0; l < lanes; ++l)
            out[h * lanes + l] = in[l][h];
}

} // namespace muser::cpu

// f32x16 as one 512-bit register (AVX-512 F/BW/DQ/VL). Included once, by ops_avx512.cpp.
#pragma once

// GCC 12's own intrinsics start from a deliberately undefined register and warn about it where they inline.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace muser::cpu::avx512 {
namespace {

struct f32x16 {
    __m512 v;
};

inline f32x16 set1(float x) { return {_mm512_set1_ps(x)}; }
inline f32x16 load(const float *p) { return {_mm512_loadu_ps(p)}; }
inline void store(float *p, f32x16 a) { _mm512_storeu_ps(p, a.v); }
inline f32x16 load(const uint16_t *p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)))};
}
inline f32x16 load(const int8_t *p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))))};
}
inline void store(uint16_t *p, f32x16 a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}

inline f32x16 operator+(f32x16 a, f32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline f32x16 operator-(f32x16 a, f32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline f32x16 operator*(f32x16 a, f32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline f32x16 operator/(f32x16 a, f32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline f32x16 max(f32x16 a, f32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline f32x16 min(f32x16 a, f32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline f32x16 abs(f32x16 a) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v)}; }
inline f32x16 copysign(f32x16 magnitude, f32x16 s) {
    const __m512 sign = _mm512_set1_ps(-0.0f);
    return {_mm512_or_ps(_mm512_andnot_ps(sign, magnitude.v), _mm512_and_ps(sign, s.v))};
}
inline f32x16 where_less(f32x16 a, f32x16 b, f32x16 yes, f32x16 no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
// The processor's own p 2^n, rounded once: what vector_math.h does in two factors. For p below 1.5 it is zero from
// 2^-151 down; left to the instruction, a result that underflows takes 70 ns (every hidden key has one).
#define MUSER_OWN_TIMES_EXP2
inline f32x16 times_exp2(f32x16 p, f32x16 n) {
    const __mmask16 counts = _mm512_cmp_ps_mask(n.v, _mm512_set1_ps(-150.5f), _CMP_NLE_UQ); // NaN does
    return {_mm512_maskz_scalef_ps(counts, p.v, n.v)};
}

inline float sum(f32x16 a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float max_of(f32x16 a) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// Lane i becomes lane i ^ Step.
template <int Step> inline f32x16 swap_lanes(f32x16 a) {
    if constexpr (Step < 4)
        return {_mm512_permute_ps(a.v, Step == 1 ? 0xb1 : 0x4e)};
    else
        return {_mm512_shuffle_f32x4(a.v, a.v, Step == 4 ? 0xb1 : 0x4e)};
}

// Lanes 2i and 2i + 1 become p[i].
inline f32x16 load_twice(const float *p) {
    const __m512i index = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return {_mm512_permutexvar_ps(index, _mm512_castps256_ps512(_mm256_loadu_ps(p)))};
}

using Register = __m512;
constexpr int kRegisterLanes = 16;
inline Register load_register(const float *p) { return _mm512_loadu_ps(p); }
inline Register load_register(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p))); }
inline void store_register(float *p, Register v) { _mm512_storeu_ps(p, v); }
inline Register fill_register(float x) { return _mm512_set1_ps(x); }
inline Register multiply(Register a, Register b) { return _mm512_mul_ps(a, b); }
inline Register multiply_add(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }

// At least eight independent chains hide the latency of two FMA ports.
constexpr int kBlockQueries = 4;
inline int block_of(int queries) { return queries < 4 ? queries : 4; }
constexpr int block_vectors(int queries) { return queries == 1 ? 8 : 4; }

} // namespace
} // namespace muser::cpu::avx512

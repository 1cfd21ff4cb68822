// f32x16 as two 256-bit registers (AVX2, FMA, F16C). Included once, by ops_avx2.cpp.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace muser::cpu::avx2 {
namespace {

struct f32x16 {
    __m256 lo, hi;
};

inline f32x16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline f32x16 load(const float *p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float *p, f32x16 v) {
    _mm256_storeu_ps(p, v.lo);
    _mm256_storeu_ps(p + 8, v.hi);
}
inline f32x16 load(const uint16_t *p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p + 8)))};
}
inline f32x16 load(const int8_t *p) {
    const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(all)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(all, 8)))};
}
inline void store(uint16_t *p, f32x16 v) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm256_cvtps_ph(v.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p + 8), _mm256_cvtps_ph(v.hi, _MM_FROUND_TO_NEAREST_INT));
}

inline f32x16 operator+(f32x16 a, f32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline f32x16 operator-(f32x16 a, f32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline f32x16 operator*(f32x16 a, f32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline f32x16 operator/(f32x16 a, f32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline f32x16 max(f32x16 a, f32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline f32x16 min(f32x16 a, f32x16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline f32x16 abs(f32x16 a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
inline f32x16 copysign(f32x16 magnitude, f32x16 s) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_or_ps(_mm256_andnot_ps(sign, magnitude.lo), _mm256_and_ps(sign, s.lo)),
            _mm256_or_ps(_mm256_andnot_ps(sign, magnitude.hi), _mm256_and_ps(sign, s.hi))};
}
inline f32x16 where_less(f32x16 a, f32x16 b, f32x16 yes, f32x16 no) {
    return {_mm256_blendv_ps(no.lo, yes.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.hi, yes.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
inline __m256 exp2_of_biased(__m256 h) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(h), _mm256_set1_epi32(127)), 23));
}
inline f32x16 exp2_of_biased(f32x16 h) { return {exp2_of_biased(h.lo), exp2_of_biased(h.hi)}; }

inline float sum(f32x16 v) {
    const __m256 eight = _mm256_add_ps(v.lo, v.hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float max_of(f32x16 v) {
    const __m256 eight = _mm256_max_ps(v.lo, v.hi);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// Lane i becomes lane i ^ Step.
template <int Step> inline __m256 swap_lanes(__m256 v) {
    if constexpr (Step == 4)
        return _mm256_permute2f128_ps(v, v, 1);
    else
        return _mm256_permute_ps(v, Step == 1 ? 0xb1 : 0x4e);
}
template <int Step> inline f32x16 swap_lanes(f32x16 v) {
    if constexpr (Step == 8)
        return {v.hi, v.lo};
    else
        return {swap_lanes<Step>(v.lo), swap_lanes<Step>(v.hi)};
}

// Lanes 2i and 2i + 1 become p[i].
inline __m256 load_four_twice(const float *p) {
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}
inline f32x16 load_twice(const float *p) { return {load_four_twice(p), load_four_twice(p + 4)}; }

using Register = __m256;
constexpr int kRegisterLanes = 8;
inline Register load_register(const float *p) { return _mm256_loadu_ps(p); }
inline Register load_register(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))); }
inline void store_register(float *p, Register v) { _mm256_storeu_ps(p, v); }
inline Register fill_register(float x) { return _mm256_set1_ps(x); }
inline Register multiply(Register a, Register b) { return _mm256_mul_ps(a, b); }
inline Register multiply_add(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }

// Twelve accumulators (3 queries x 2 vectors, 2 x 3 or 1 x 6), three broadcasts and one operand fill the sixteen
// registers; 4 x 1 has eight accumulators, just enough chains for two ports of four cycles.
constexpr int kBlockQueries = 4; // blocks of three, or a last one of four
inline int block_of(int queries) { return queries == 4 ? 4 : queries < 3 ? queries : 3; }
constexpr int block_vectors(int queries) { return 6 / queries; }

} // namespace
} // namespace muser::cpu::avx2

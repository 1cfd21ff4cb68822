// The inner loops of every measured limit: streaming reads, and multiply-adds that never leave the registers, in the
// widest form that this processor has. Used by probe.cpp (all threads) and machine_peaks.cpp (one).
// int8: vpdpbusd where there is VNNI; else vpmaddubsw, vpmaddwd and vpaddd, the general AVX2 sequence (a kernel
// that knows small weights beats it); sdot on aarch64.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace muser::cpu::testing {

// Independent accumulators: enough to hide the latency of every port. The AVX2 integer sequence ends in an add of
// one cycle and needs a register for each product: more accumulators would spill.
inline constexpr int kPeakChains = 10, kPeakChainsAvx2Int8 = 6;

// loop(steps) does steps * macs multiply-adds; macs 0: no instruction that is known here.
struct PeakLoop {
    int macs;
    void (*loop)(int64_t steps);
};

namespace detail {

inline volatile float peak_sink;
inline void no_loop(int64_t) {}

#if defined(__x86_64__)

#define MUSER_KEEP(x) __asm__ volatile("" : "+v"(x)) // the compiler must not compute the step once for all
#define MUSER_KEEP_AVX(x) __asm__ volatile("" : "+x"(x))

__attribute__((target("avx2"))) inline uint64_t read_avx2(const uint64_t *words, size_t count, size_t lines) {
    __m256i x = _mm256_setzero_si256();
    const size_t part = count / 4 / lines;
    const auto *p = reinterpret_cast<const __m256i *>(words);
    for (size_t i = 0; i + 2 <= part; i += 2)
        for (size_t line = 0; line < lines; ++line) {
            const __m256i *at = p + line * part + i;
            x = _mm256_xor_si256(x, _mm256_xor_si256(_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)));
        }
    return static_cast<uint64_t>(_mm256_extract_epi64(x, 0));
}

__attribute__((target("avx2,fma"))) inline void float_256(int64_t steps) {
    __m256 acc[kPeakChains] = {}, w = _mm256_set1_ps(1.0f);
    for (int64_t i = 0; i < steps; ++i)
        for (auto &x : acc) {
            MUSER_KEEP_AVX(w);
            x = _mm256_fmadd_ps(w, w, x);
        }
    for (auto &x : acc)
        peak_sink = _mm256_cvtss_f32(x);
}

__attribute__((target("avx512f"))) inline void float_512(int64_t steps) {
    __m512 acc[kPeakChains] = {}, w = _mm512_set1_ps(1.0f);
    for (int64_t i = 0; i < steps; ++i)
        for (auto &x : acc) {
            MUSER_KEEP(w);
            x = _mm512_fmadd_ps(w, w, x);
        }
    for (auto &x : acc)
        peak_sink = _mm512_cvtss_f32(x);
}

__attribute__((target("avx2"))) inline void int8_256(int64_t steps) {
    __m256i acc[kPeakChainsAvx2Int8] = {}, w = _mm256_set1_epi8(1);
    const __m256i ones = _mm256_set1_epi16(1);
    for (int64_t i = 0; i < steps; ++i)
        for (auto &x : acc) {
            MUSER_KEEP_AVX(w);
            x = _mm256_add_epi32(x, _mm256_madd_epi16(_mm256_maddubs_epi16(w, w), ones));
        }
    for (auto &x : acc)
        peak_sink = static_cast<float>(_mm256_extract_epi32(x, 0));
}

__attribute__((target("avx512f,avx512vnni"))) inline void int8_512(int64_t steps) {
    __m512i acc[kPeakChains] = {}, w = _mm512_set1_epi32(0x01010101);
    for (int64_t i = 0; i < steps; ++i)
        for (auto &x : acc) {
            MUSER_KEEP(w);
            x = _mm512_dpbusd_epi32(x, w, w);
        }
    for (auto &x : acc)
        peak_sink = static_cast<float>(_mm512_reduce_add_epi32(x));
}

inline bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
inline bool has_vnni() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni"); }

#elif defined(__ARM_FEATURE_DOTPROD)

inline void int8_neon(int64_t steps) {
    int32x4_t acc[kPeakChains] = {};
    int8x16_t w = vdupq_n_s8(1);
    for (int64_t i = 0; i < steps; ++i)
        for (auto &x : acc) {
            __asm__ volatile("" : "+w"(w));
            x = vdotq_s32(x, w, w);
        }
    for (auto &x : acc)
        peak_sink = static_cast<float>(vaddvq_s32(x));
}

#endif

} // namespace detail

// Reads every word once, along `lines` lines at once: one line alone does not get all of a core's bandwidth.
inline uint64_t read_words(const uint64_t *words, size_t count, size_t lines) {
#if defined(__x86_64__)
    if (detail::has_avx2())
        return detail::read_avx2(words, count, lines);
#endif
    uint64_t sums[8] = {};
    const size_t part = count / lines;
    for (size_t i = 0; i + 8 <= part; i += 8)
        for (size_t line = 0; line < lines; ++line)
            for (size_t k = 0; k < 8; ++k)
                sums[k] ^= words[line * part + i + k];
    uint64_t all = 0;
    for (uint64_t sum : sums)
        all ^= sum;
    return all;
}

inline PeakLoop float_loop() {
#if defined(__x86_64__)
    if (detail::has_vnni())
        return {16 * kPeakChains, detail::float_512};
    if (detail::has_avx2())
        return {8 * kPeakChains, detail::float_256};
#endif
    return {0, detail::no_loop};
}

inline PeakLoop int8_loop() {
#if defined(__x86_64__)
    if (detail::has_vnni())
        return {64 * kPeakChains, detail::int8_512};
    if (detail::has_avx2())
        return {32 * kPeakChainsAvx2Int8, detail::int8_256};
#elif defined(__ARM_FEATURE_DOTPROD)
    return {16 * kPeakChains, detail::int8_neon};
#endif
    return {0, detail::no_loop};
}

} // namespace muser::cpu::testing

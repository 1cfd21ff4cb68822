// Peaks as register-only loops, ten independent chains each. int8: vpdpbusd where there is VNNI; else
// vpmaddubsw, vpmaddwd and vpaddd, the general AVX2 sequence (a kernel that knows small weights beats it).
#include "machine_peaks.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace muser::cpu::testing {

namespace {

volatile float sink;
constexpr int kSteps = 200000, kChains = 10;

#if defined(__x86_64__)

// Reads along `lines` lines at once: one line alone does not get all of a core's bandwidth.
__attribute__((target("avx2"))) uint64_t read_all(const uint64_t *words, size_t count, size_t lines) {
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

#define KEEP(x) __asm__ volatile("" : "+x"(x))
#define KEEP_ZMM(x) __asm__ volatile("" : "+v"(x))

__attribute__((target("avx2,fma"))) void float_256() {
    __m256 acc[kChains] = {}, w = _mm256_set1_ps(1.0f);
    for (int i = 0; i < kSteps; ++i)
        for (auto &x : acc) {
            KEEP(w);
            x = _mm256_fmadd_ps(w, w, x);
        }
    for (auto &x : acc)
        sink = _mm256_cvtss_f32(x);
}

__attribute__((target("avx512f"))) void float_512() {
    __m512 acc[kChains] = {}, w = _mm512_set1_ps(1.0f);
    for (int i = 0; i < kSteps; ++i)
        for (auto &x : acc) {
            KEEP_ZMM(w);
            x = _mm512_fmadd_ps(w, w, x);
        }
    for (auto &x : acc)
        sink = _mm512_cvtss_f32(x);
}

__attribute__((target("avx2"))) void int8_256() {
    __m256i acc[kChains] = {}, w = _mm256_set1_epi8(1);
    const __m256i ones = _mm256_set1_epi16(1);
    for (int i = 0; i < kSteps; ++i)
        for (auto &x : acc) {
            KEEP(w);
            x = _mm256_add_epi32(x, _mm256_madd_epi16(_mm256_maddubs_epi16(w, w), ones));
        }
    for (auto &x : acc)
        sink = static_cast<float>(_mm256_extract_epi32(x, 0));
}

__attribute__((target("avx512f,avx512vnni"))) void int8_512() {
    __m512i acc[kChains] = {}, w = _mm512_set1_epi32(0x01010101);
    for (int i = 0; i < kSteps; ++i)
        for (auto &x : acc) {
            KEEP_ZMM(w);
            x = _mm512_dpbusd_epi32(x, w, w);
        }
    for (auto &x : acc)
        sink = static_cast<float>(_mm512_reduce_add_epi32(x));
}

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_vnni() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni"); }

double gmac(int macs_a_step, void (*loop)()) {
    return static_cast<double>(kSteps) * kChains * macs_a_step / best_seconds(7, loop) / 1e9;
}

#else

uint64_t read_all(const uint64_t *words, size_t count, size_t) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i)
        sum ^= words[i];
    return sum;
}

#endif

} // namespace

double streaming_read_gb(double mib) {
    const LargePages memory(static_cast<size_t>(mib * 1048576));
    std::memset(memory.data(), 1, memory.size());
    const auto *words = reinterpret_cast<const uint64_t *>(memory.data());
    double best = 1e30;
    for (const size_t lines : {1, 2, 4, 8})
        best = std::min(best, best_seconds(9, [&] {
                            sink = static_cast<float>(read_all(words, memory.size() / 8, lines));
                        }));
    return static_cast<double>(memory.size()) / best / 1e9;
}

#if defined(__x86_64__)
double float_peak_gmac() { return has_vnni() ? gmac(16, float_512) : has_avx2() ? gmac(8, float_256) : 0; }
double int8_peak_gmac() { return has_vnni() ? gmac(64, int8_512) : has_avx2() ? gmac(32, int8_256) : 0; }
#else
double float_peak_gmac() { return 0; }
double int8_peak_gmac() { return 0; }
#endif

} // namespace muser::cpu::testing

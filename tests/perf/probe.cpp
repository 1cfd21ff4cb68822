// What this machine can do at most: streaming reads and int8 dot products, with the caller's number of threads.
// Compiled by probe.py for the CPU it runs on; not part of the package.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;

// Sums 64-bit words with eight independent chains; the compiler vectorizes it to full-width loads.
uint64_t read_all(const uint64_t *data, size_t n) {
    uint64_t sums[64] = {};
    for (size_t i = 0; i + 64 <= n; i += 64)
        for (size_t k = 0; k < 64; ++k)
            sums[k] += data[i + k];
    uint64_t total = 0;
    for (uint64_t s : sums)
        total += s;
    return total;
}

constexpr int kChains = 12; // enough independent accumulators to hide the latency of every port

#if defined(__AVX512VNNI__)
constexpr int kMacs = 64;
int64_t multiply(int64_t rounds) {
    __m512i sums[kChains], a = _mm512_set1_epi8(1), b = _mm512_set1_epi8(1);
    for (auto &s : sums)
        s = _mm512_setzero_si512();
    for (int64_t r = 0; r < rounds; ++r)
        for (auto &s : sums) {
            s = _mm512_dpbusd_epi32(s, a, b);
            asm volatile("" : "+v"(s));
        }
    int64_t total = 0;
    for (auto &s : sums)
        total += _mm512_reduce_add_epi32(s);
    return total;
}
#elif defined(__AVX2__)
constexpr int kMacs = 32;
int64_t multiply(int64_t rounds) {
    __m256i sums[kChains], a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(1), ones = _mm256_set1_epi16(1);
    for (auto &s : sums)
        s = _mm256_setzero_si256();
    for (int64_t r = 0; r < rounds; ++r)
        for (auto &s : sums) {
            __m256i products = _mm256_maddubs_epi16(a, b);
            asm volatile("" : "+x"(products));
            s = _mm256_add_epi32(s, _mm256_madd_epi16(products, ones));
        }
    int64_t total = 0;
    for (auto &s : sums) {
        int32_t lanes[8];
        std::memcpy(lanes, &s, sizeof lanes);
        for (int32_t v : lanes)
            total += v;
    }
    return total;
}
#elif defined(__ARM_FEATURE_DOTPROD)
constexpr int kMacs = 16;
int64_t multiply(int64_t rounds) {
    int32x4_t sums[kChains];
    int8x16_t a = vdupq_n_s8(1), b = vdupq_n_s8(1);
    for (auto &s : sums)
        s = vdupq_n_s32(0);
    for (int64_t r = 0; r < rounds; ++r)
        for (auto &s : sums) {
            s = vdotq_s32(s, a, b);
            asm volatile("" : "+w"(s));
        }
    int64_t total = 0;
    for (auto &s : sums)
        total += vaddvq_s32(s);
    return total;
}
#else
constexpr int kMacs = 0;
int64_t multiply(int64_t) { return 0; }
#endif

// Seconds that `threads` threads take for body(index), all starting together.
template <class Body> double timed(int threads, const Body &body) {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> team;
    for (int i = 0; i < threads; ++i)
        team.emplace_back([&, i] {
            ready.fetch_add(1);
            while (!go.load())
                ;
            body(i);
        });
    while (ready.load() < threads)
        ;
    const auto start = Clock::now();
    go.store(true);
    for (auto &t : team)
        t.join();
    return std::chrono::duration<double>(Clock::now() - start).count();
}

std::atomic<uint64_t> sink;

} // namespace

extern "C" {

// Bytes a second of reading a buffer of this size over and over, split between the threads.
double read_bandwidth(const uint64_t *data, size_t words, int threads, int passes) {
    const size_t share = words / static_cast<size_t>(threads);
    const double seconds = timed(threads, [&](int i) {
        for (int p = 0; p < passes; ++p)
            sink += read_all(data + share * static_cast<size_t>(i), share);
    });
    return 8.0 * static_cast<double>(share) * threads * passes / seconds;
}

// int8 multiply-adds a second; 0 where this CPU has no instruction that the probe knows.
double int8_peak(int threads, int64_t rounds) {
    const double seconds = timed(threads, [&](int) { sink += static_cast<uint64_t>(multiply(rounds)); });
    return static_cast<double>(kMacs) * kChains * static_cast<double>(rounds) * threads / seconds;
}
}

// What this machine can do at most: streaming reads and int8 dot products, with the caller's number of threads.
// Compiled by probe.py for the CPU it runs on; not part of the package.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "peak_loops.h"

namespace {

using namespace muser::cpu::testing;
using Clock = std::chrono::steady_clock;

constexpr size_t kReadLines = 4; // read side by side

constexpr auto kWarmUp = std::chrono::milliseconds(5); // for the system to give each thread a core of its own

// Seconds that `threads` threads, the caller's among them, take for body(index), all starting together.
template <class Body> double timed(int threads, const Body &body) {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> team;
    for (int i = 1; i < threads; ++i)
        team.emplace_back([&, i] {
            ready.fetch_add(1);
            while (!go.load())
                ;
            body(i);
        });
    while (ready.load() < threads - 1)
        ;
    const auto warm = Clock::now() + kWarmUp;
    while (Clock::now() < warm)
        ;
    const auto start = Clock::now();
    go.store(true);
    body(0);
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
            sink += read_words(data + share * static_cast<size_t>(i), share, kReadLines);
    });
    return 8.0 * static_cast<double>(share) * threads * passes / seconds;
}

// int8 multiply-adds a second; 0 where this CPU has no instruction that the probe knows.
double int8_peak(int threads, int64_t rounds) {
    const PeakLoop peak = int8_loop();
    const double seconds = timed(threads, [&](int) { peak.loop(rounds); });
    return static_cast<double>(peak.macs) * static_cast<double>(rounds) * threads / seconds;
}
}

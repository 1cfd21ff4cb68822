// One thread's limits (machine_peaks.h), from the loops of peak_loops.h.
#include "machine_peaks.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "peak_loops.h"

namespace muser::cpu::testing {

namespace {

constexpr int64_t kSteps = 200000;

double gmac(PeakLoop peak) {
    if (peak.macs == 0)
        return 0;
    const double seconds = best_seconds(7, [&] { peak.loop(kSteps); });
    return static_cast<double>(kSteps) * peak.macs / seconds / 1e9;
}

} // namespace

double streaming_read_gb(double mib) {
    const LargePages memory(static_cast<size_t>(mib * 1048576));
    std::memset(memory.data(), 1, memory.size());
    const auto *words = reinterpret_cast<const uint64_t *>(memory.data());
    volatile uint64_t sink = 0;
    double best = 1e30;
    for (const size_t lines : {1, 2, 4, 8})
        best = std::min(best, best_seconds(9, [&] { sink = read_words(words, memory.size() / 8, lines); }));
    return static_cast<double>(memory.size()) / best / 1e9;
}

double float_peak_gmac() { return gmac(float_loop()); }
double int8_peak_gmac() { return gmac(int8_loop()); }

} // namespace muser::cpu::testing

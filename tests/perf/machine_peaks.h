// What one thread of this machine can do, measured with the widest instructions that the processor has:
// bytes read from memory, float32 multiply-adds, and int8 multiply-adds into int32.
#pragma once

#include <algorithm>
#include <ctime>

namespace muser::cpu::testing {

// Processor time of this thread, so that other processes disturb less than they would a wall clock.
inline double thread_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Work> double best_seconds(int repeats, Work &&work) {
    double best = 1e30;
    for (int i = 0; i < repeats; ++i) {
        const double start = thread_seconds();
        work();
        best = std::min(best, thread_seconds() - start);
    }
    return best;
}

double streaming_read_gb(double mib);
double float_peak_gmac();
double int8_peak_gmac();

} // namespace muser::cpu::testing

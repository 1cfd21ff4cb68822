// What one thread of this machine can do, measured with the widest instructions that the processor has:
// bytes read from memory, float32 multiply-adds, and int8 multiply-adds into int32.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <new>

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

// Zeroed memory in large pages where the system gives them, as the device holds its weights.
class LargePages {
  public:
    explicit LargePages(size_t size) : size_(size) {
        void *data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED)
            throw std::bad_alloc();
        data_ = static_cast<std::byte *>(data);
#if defined(MADV_HUGEPAGE)
        madvise(data_, size, MADV_HUGEPAGE);
#endif
    }
    ~LargePages() { munmap(data_, size_); }
    LargePages(const LargePages &) = delete;
    LargePages &operator=(const LargePages &) = delete;
    std::byte *data() const { return data_; }
    size_t size() const { return size_; }

  private:
    size_t size_;
    std::byte *data_ = nullptr;
};

double streaming_read_gb(double mib);
double float_peak_gmac();
double int8_peak_gmac();

} // namespace muser::cpu::testing

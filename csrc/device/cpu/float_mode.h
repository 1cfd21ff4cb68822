// Round to nearest with gradual underflow while alive. A host library may have switched its own threads to
// flush-to-zero (code linked with -ffast-math does), and one of them computes as thread 0: without this the
// bits of a row would depend on which thread had it.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace muser::cpu {

class DefaultFloatMode {
  public:
#if defined(__x86_64__)
    DefaultFloatMode() : before_(_mm_getcsr()) { _mm_setcsr(0x1f80); } // all exceptions masked
    ~DefaultFloatMode() { _mm_setcsr(before_); }
#elif defined(__aarch64__)
    DefaultFloatMode() {
        asm volatile("mrs %0, fpcr" : "=r"(before_));
        set(0);
    }
    ~DefaultFloatMode() { set(before_); }
#else
    DefaultFloatMode() : before_(0) {}
    ~DefaultFloatMode() = default;
#endif
    DefaultFloatMode(const DefaultFloatMode &) = delete;
    DefaultFloatMode &operator=(const DefaultFloatMode &) = delete;

  private:
#if defined(__aarch64__)
    static void set(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
    uint64_t before_;
#else
    uint32_t before_;
#endif
};

} // namespace muser::cpu

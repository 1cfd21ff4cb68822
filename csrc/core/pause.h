// The body of a spin loop: tells the core that this thread only waits for a word to change.
#pragma once

namespace muser {

inline void cpu_pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory"); // `yield` is a no-op on most cores and would hammer the cache line
#endif
}

} // namespace muser

// Host threads that run the threadgroups of a dispatch together.
#pragma once

#include <cstdint>
#include <functional>

namespace msl {

// Runs `body` on `count` threads, the caller's among them, and returns when all have ended. One call at a time.
void run_on_threads(uint32_t count, const std::function<void()> &body);

} // namespace msl

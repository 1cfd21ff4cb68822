// How long something had the device: the times in an engine's stats.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "core/wait.h"

namespace muser {

// Adds the time for which it ran to a total of nanoseconds, at the end of its life. It runs from the beginning.
class Stopwatch {
  public:
    explicit Stopwatch(std::atomic<uint64_t> &total) : total_(total) {}
    Stopwatch(const Stopwatch &) = delete;
    Stopwatch &operator=(const Stopwatch &) = delete;
    ~Stopwatch() { total_ += static_cast<uint64_t>(read().count()); }

    std::chrono::nanoseconds read() const { return before_ + (since_ ? Clock::now() - *since_ : Clock::duration(0)); }
    void stop() {
        before_ = read();
        since_.reset();
    }
    void go_on() { since_ = Clock::now(); }

  private:
    std::atomic<uint64_t> &total_;
    std::chrono::nanoseconds before_{0};
    std::optional<Clock::time_point> since_ = Clock::now();
};

} // namespace muser

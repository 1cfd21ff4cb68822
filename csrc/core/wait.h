// What every blocking call carries: when to give up, what cancels it, and a hook the host polls.
// Waits sleep in slices of at most kPollInterval so that cancellation and the hook are seen in time.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>

#include "core/error.h"

namespace muser {

using Clock = std::chrono::steady_clock;
using Deadline = std::optional<Clock::time_point>; // empty: no limit

// Short enough that Ctrl-C feels immediate, long enough to cost nothing.
inline constexpr std::chrono::milliseconds kPollInterval{20};

struct Wait {
    Deadline deadline;
    const std::atomic<bool> *cancelled = nullptr; // may be null
    std::function<void()> poll;                   // may be empty; throws to abandon the wait (Ctrl-C)

    // Throws Error{cancelled}, Error{timeout}, or whatever poll throws. Call without holding a lock:
    // poll may take the Python GIL.
    void check() const {
        check_cancelled();
        if (poll)
            poll();
        check_deadline();
    }

    // The same without poll: for the way in, so that a call that need not wait does not pay for the GIL.
    void check_without_poll() const {
        check_cancelled();
        check_deadline();
    }

    // When a sleeper has to call check() next.
    Clock::time_point next_check() const {
        const Clock::time_point slice = Clock::now() + kPollInterval;
        return deadline ? std::min(*deadline, slice) : slice;
    }

  private:
    void check_cancelled() const {
        if (cancelled && cancelled->load(std::memory_order_relaxed))
            throw Error(ErrorCode::cancelled, "the session was cancelled");
    }
    void check_deadline() const {
        if (deadline && Clock::now() >= *deadline)
            throw Error(ErrorCode::timeout, "the deadline passed while waiting");
    }
};

} // namespace muser

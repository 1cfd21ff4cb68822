// Helpers of the concurrency tests: threads that make one blocking call each, and waiting for a condition.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#endif

#include "core/error.h"

namespace muser::test {

// Polls until the condition holds. The limit only ends a broken test; no test passes by waiting for it.
template <class Condition> bool eventually(Condition &&condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (int looks = 0; !condition(); ++looks) {
        if (std::chrono::steady_clock::now() > end)
            return false;
        // On a busy machine a yield costs a time slice of somebody else's; a short sleep does not.
        if (looks > 20)
            std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return true;
}

// Time for something wrong to happen, before checking that it did not.
inline void give_it_a_chance() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

// While alive, this thread and those it starts share a single core.
class OneCore {
  public:
#if defined(__linux__)
    OneCore() {
        cpu_set_t one;
        CPU_ZERO(&one);
        known_ = sched_getaffinity(0, sizeof before_, &before_) == 0;
        for (int cpu = 0; known_ && cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
            if (CPU_ISSET(cpu, &before_))
                CPU_SET(cpu, &one);
        known_ = known_ && sched_setaffinity(0, sizeof one, &one) == 0;
    }
    ~OneCore() {
        if (known_)
            sched_setaffinity(0, sizeof before_, &before_);
    }
    bool works() const { return known_; }

  private:
    bool known_ = false;
    cpu_set_t before_;
#else
    bool works() const { return false; }
#endif
};

// Runs a call on a thread of its own and keeps how it ended.
class Caller {
  public:
    explicit Caller(std::function<void()> call)
        : thread_([this, call = std::move(call)] {
              try {
                  call();
              } catch (const Error &error) {
                  error_ = error;
              } catch (const std::exception &other) {
                  other_ = other.what();
              }
              done_.store(true);
          }) {}
    ~Caller() { thread_.join(); }

    bool done() const { return done_.load(); }
    bool wait() const {
        return eventually([&] { return done(); });
    }
    // After done(): how it ended.
    bool ok() const { return !error_ && other_.empty(); }
    std::optional<ErrorCode> code() const { return error_ ? std::optional(error_->code()) : std::nullopt; }
    const Error &error() const { return error_.value(); }
    const std::string &other() const { return other_; }

  private:
    std::optional<Error> error_;
    std::string other_;
    std::atomic<bool> done_{false};
    std::thread thread_; // last: it uses the others
};

} // namespace muser::test

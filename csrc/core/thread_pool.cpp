// The thread pool: workers wait at a gate for the next region, run it, and meet the caller at a barrier.
// Every wait is a short bounded spin, then a park, so that a machine with one core, or with more threads than
// cores, makes progress: whoever has nothing to do gets off the core.
#include "core/thread_pool.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/pause.h"
#include "core/wait.h"

namespace muser {

namespace {

constexpr int kMaxThreads = 1024; // far above any machine's use; a typing mistake stops here

// Long enough to bridge the gap between two ops of a pass and most imbalance inside one, short enough
// that an idle pool is off the cores before anybody notices.
constexpr std::chrono::microseconds kSpinTime{40};
constexpr int kPausesPerClockRead = 32; // reading the clock costs about as much as a few pauses
// With more threads than cores the one waited for may need this core: it gets it at once. Only a few times,
// because on a machine that others keep busy each yield can cost a whole time slice of theirs.
constexpr int kYields = 4;

// Neighbouring hot words on one cache line would slow each other down (Apple's lines are 128 bytes).
constexpr size_t kCacheLine = 128;

// A counter that only grows, and a way to wait for its next step.
class Gate {
  public:
    uint32_t value() const noexcept { return value_.load(std::memory_order_acquire); }

    // No wake-up is lost: a parking thread raises parked_ and then looks at value_, the opener changes
    // value_ and then looks at parked_, all sequentially consistent, so at least one sees the other. If
    // the opener sees a parked thread it passes through the mutex, hence it notifies either after that
    // thread sleeps or before that thread looks at value_.
    void open() noexcept {
        value_.fetch_add(1, std::memory_order_seq_cst);
        if (parked_.load(std::memory_order_seq_cst) == 0)
            return;
        { std::lock_guard lock(mutex_); }
        changed_.notify_all();
    }

    // Returns once the value differs from `old`.
    void await(uint32_t old, bool spin) noexcept {
        if (spin ? spun(old) : yielded(old))
            return;
        std::unique_lock lock(mutex_);
        parked_.fetch_add(1, std::memory_order_seq_cst);
        while (value_.load(std::memory_order_seq_cst) == old)
            changed_.wait(lock);
        parked_.fetch_sub(1, std::memory_order_relaxed);
    }

  private:
    bool spun(uint32_t old) const noexcept {
        const auto end = Clock::now() + kSpinTime;
        do {
            for (int i = 0; i < kPausesPerClockRead; ++i) {
                if (value() != old)
                    return true;
                cpu_pause();
            }
        } while (Clock::now() < end);
        return false;
    }

    bool yielded(uint32_t old) const noexcept {
        for (int i = 0; i < kYields && value() == old; ++i)
            std::this_thread::yield();
        return value() != old;
    }

    alignas(kCacheLine) std::atomic<uint32_t> value_{0};
    std::atomic<int> parked_{0}; // beside value_: the opener has just made the line its own
    alignas(kCacheLine) std::mutex mutex_;
    std::condition_variable changed_;
};

// While alive, threads started by this one inherit a mask without the signals a host handles: Ctrl-C and
// timers belong to its own threads. Faults stay deliverable, so that a host's crash handler still runs.
class BlockedSignals {
  public:
    BlockedSignals() {
        sigset_t all;
        sigfillset(&all);
        for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
            sigdelset(&all, fault);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  private:
    sigset_t before_;
};

void name_this_thread() {
#if defined(__APPLE__)
    pthread_setname_np("muser");
#else
    pthread_setname_np(pthread_self(), "muser");
#endif
}

} // namespace

struct ThreadPool::State {
    explicit State(int n) : n_threads(n), spin(n <= available_cores()), owner(getpid()) {}

    void work(int index) {
        name_this_thread();
        for (uint32_t regions = 0;; ++regions) {
            start.await(regions, spin); // the gate is at most one step ahead: every region ends in a barrier
            if (stopping)
                return;
            (*body)(index);
            barrier();
        }
    }

    void barrier() noexcept {
        const uint32_t phase = passed.value(); // cannot move before this thread has arrived
        if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < n_threads) {
            passed.await(phase, spin);
            return;
        }
        arrived.store(0, std::memory_order_relaxed); // nobody arrives again until the gate opens
        passed.open();
    }

    void stop() {
        stopping = true;
        start.open();
        for (std::thread &worker : workers)
            worker.join();
    }

    const int n_threads;
    const bool spin; // with more threads than cores, spinning keeps the thread waited for off its core
    const pid_t owner;
    const std::function<void(int)> *body = nullptr; // published by `start`
    bool stopping = false;                          // likewise
    Gate start;
    alignas(kCacheLine) std::atomic<int> arrived{0};
    Gate passed;
    std::vector<std::thread> workers;
};

ThreadPool::ThreadPool(int n_threads) {
    if (n_threads < 1 || n_threads > kMaxThreads)
        throw parameter_error("threads", "must be in 1.." + std::to_string(kMaxThreads), n_threads);
    state_ = std::make_unique<State>(n_threads);
    state_->workers.reserve(static_cast<size_t>(n_threads - 1));
    BlockedSignals blocked;
    try {
        for (int i = 1; i < n_threads; ++i)
            state_->workers.emplace_back([state = state_.get(), i] { state->work(i); });
    } catch (const std::system_error &error) {
        const size_t started = state_->workers.size() + 1;
        state_->stop();
        throw Error(ErrorCode::out_of_memory,
                    "the operating system refused thread " + std::to_string(started + 1) + " of " +
                        std::to_string(n_threads) + ": " + error.code().message(),
                    {{"needed", int64_t{n_threads}}, {"available", static_cast<int64_t>(started)}});
    }
}

ThreadPool::~ThreadPool() {
    if (state_->owner != getpid()) {
        // A forked child has the memory but not the threads: joining would hang. Leak what they used.
        static_cast<void>(state_.release());
        return;
    }
    state_->stop();
}

int ThreadPool::size() const noexcept { return state_->n_threads; }

void ThreadPool::run(const std::function<void(int)> &body) {
    if (state_->n_threads == 1) {
        body(0);
        return;
    }
    state_->body = &body;
    state_->start.open();
    body(0);
    state_->barrier();
}

void ThreadPool::barrier() noexcept {
    if (state_->n_threads > 1)
        state_->barrier();
}

} // namespace muser

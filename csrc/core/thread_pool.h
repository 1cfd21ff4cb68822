// A fixed team of threads that runs one parallel region at a time: spin briefly, then park.
// No OpenMP: a second OpenMP runtime in the host process (torch, numpy) must not disturb us.
#pragma once

#include <functional>
#include <memory>

namespace muser {

class ThreadPool {
  public:
    // n_threads counts the caller, which always takes part as thread 0. n_threads >= 1; more threads
    // than cores is slow but correct.
    explicit ThreadPool(int n_threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool &) = delete;
    ThreadPool &operator=(const ThreadPool &) = delete;

    int size() const noexcept;

    // Runs body(thread_index) once on every thread and returns when all have finished. Calls from
    // different threads must not overlap (the scheduler's permit guarantees it). body must not throw.
    void run(const std::function<void(int)> &body);

    // Inside run(): returns when every thread has called it. All threads must call it equally often.
    // Everything written before it by any thread is visible to all threads after it.
    void barrier() noexcept;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace muser

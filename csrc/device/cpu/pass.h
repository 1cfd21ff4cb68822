// A recorded pass: steps of parallel work with a barrier after each, run in one ThreadPool::run() between two pauses.
// Two things save barriers. Row-wise ops that follow each other share a step: the thread that has a row takes it
// through all of them. And work so small that sharing it would cost more than doing it is done by every thread for
// itself (on its own copies) at the beginning of the next step.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "core/thread_pool.h"
#include "core/wait.h"
#include "device/device.h"

namespace muser::cpu {

// Work on items [first, last) by one thread. A trivially copyable callable kept in place: recording a pass
// takes no memory from the heap once the vectors have grown.
class Task {
  public:
    template <class F> Task(const F &f) : call_([](const void *self, int first, int last, int thread) {
        (*static_cast<const F *>(self))(first, last, thread);
    }) {
        static_assert(std::is_trivially_copyable_v<F> && sizeof(F) <= sizeof(storage_) && alignof(F) <= alignof(void *));
        new (storage_) F(f);
    }
    void operator()(int first, int last, int thread) const { call_(storage_, first, last, thread); }

  private:
    void (*call_)(const void *, int, int, int);
    alignas(void *) std::byte storage_[104];
};

class Pass {
  public:
    explicit Pass(ThreadPool &pool) : pool_(pool) {}

    void clear();
    // Splits items over threads, at most `grain` at a time.
    void add(int items, int grain, const Task &task);
    // The same for items that are best taken many at a time: turns shrink towards the end, from half of a thread's share
    // of what is left down to `grain`, so that no thread waits long for the last one.
    void add_shrinking(int items, int grain, const Task &task);
    // One item a row; joins the step before where that is row-wise over as many rows.
    void add_rows(int rows, const Task &task);
    void take_rows(int at_once) { rows_at_once_ = at_once; } // a thread's turn of the row-wise steps to come; 0: as it suits
    // Every thread does all items itself, before its part of the next step. Reads what earlier steps shared
    // and what this thread's own copies hold; writes only those.
    void add_everywhere(int items, const Task &task);
    void flush_everywhere(); // the next step starts after every thread has done its own work
    // Runs beside the first step; its result may be used from the second step on.
    void add_prologue(int items, const Task &task);

    size_t n_tasks() const { return tasks_.size(); } // of all steps
    void resplit_last(int items, int grain); // of the last step

    // Throws Error{timeout} when the deadline passes between two steps, and what pauses.pause() throws.
    void run(Deadline deadline, const Pauses &pauses);
    int threads() const { return pool_.size(); }
    // The shortest turn where items are tiles of weights.
    int tile_grain(uint64_t tiles) const { return static_cast<int>(tiles / (static_cast<uint64_t>(threads()) * 16)); }

  private:
    struct Everywhere {
        int items;
        Task task;
    };
    struct Step {
        int items, grain;
        size_t first_everywhere, n_everywhere;
        size_t first_task, n_tasks;
        bool row_wise, shrinking;
    };
    struct alignas(128) Counter { // one cache line each: threads pull from different steps at once
        std::atomic<int> next;
    };
    void run_step(const Step &step, const Task *tasks, Counter &counter, int thread) const;
    template <class Turn> void run_shrinking(const Step &step, Counter &counter, const Turn &turn) const;
    void reset_counters();
    size_t run_from(size_t first, Deadline deadline, const Pauses &pauses);

    ThreadPool &pool_;
    std::vector<Task> tasks_, prologue_tasks_;
    std::vector<Everywhere> everywhere_;
    size_t taken_everywhere_ = 0; // of these, by the steps so far
    std::vector<Step> steps_, prologue_;
    int rows_at_once_ = 0;
    std::unique_ptr<Counter[]> counters_;
    size_t n_counters_ = 0;
};

} // namespace muser::cpu

// Runs the recorded steps. Every thread walks the whole list; items of a step are handed out by a counter.
#include "device/cpu/pass.h"

#include <algorithm>

#include "core/error.h"
#include "device/cpu/float_mode.h"

namespace muser::cpu {

namespace {

// Rows of one turn: a whole key tile where there is work for everyone (two threads that write into one tile pass its
// cache lines to and fro), single rows otherwise.
int row_grain(int rows, int threads) { return rows >= 32 * threads ? 16 : std::clamp(rows / (threads * 4), 1, 16); }

} // namespace

void Pass::clear() {
    tasks_.clear();
    steps_.clear();
    everywhere_.clear();
    taken_everywhere_ = 0;
    prologue_tasks_.clear();
    prologue_.clear();
    rows_at_once_ = 0;
}

void Pass::add(int items, int grain, const Task &task) {
    tasks_.push_back(task);
    steps_.push_back({items, std::max(grain, 1), taken_everywhere_, everywhere_.size() - taken_everywhere_, tasks_.size() - 1, 1,
                      false, false});
    taken_everywhere_ = everywhere_.size();
}

void Pass::add_shrinking(int items, int grain, const Task &task) {
    add(items, grain, task);
    steps_.back().shrinking = true;
}

void Pass::add_rows(int rows, const Task &task) {
    const bool joins = !steps_.empty() && steps_.back().row_wise && steps_.back().items == rows;
    if (joins && taken_everywhere_ == everywhere_.size()) {
        tasks_.push_back(task);
        ++steps_.back().n_tasks;
        return;
    }
    add(rows, rows_at_once_ > 0 ? rows_at_once_ : row_grain(rows, threads()), task);
    steps_.back().row_wise = true;
}

void Pass::add_everywhere(int items, const Task &task) { everywhere_.push_back({items, task}); }

void Pass::flush_everywhere() {
    if (taken_everywhere_ < everywhere_.size())
        add(0, 1, [](int, int, int) {});
}

void Pass::resplit_last(int items, int grain) {
    steps_.back().items = items;
    steps_.back().grain = std::max(grain, 1);
}

void Pass::add_prologue(int items, const Task &task) {
    prologue_tasks_.push_back(task);
    prologue_.push_back({items, row_grain(items, threads()), 0, 0, prologue_tasks_.size() - 1, 1, false, false});
}

void Pass::run_step(const Step &step, const Task *tasks, Counter &counter, int thread) const {
    for (size_t i = 0; i < step.n_everywhere; ++i) {
        const Everywhere &own = everywhere_[step.first_everywhere + i];
        own.task(0, own.items, thread);
    }
    const auto turn = [&](int first, int last) {
        for (size_t i = 0; i < step.n_tasks; ++i)
            tasks[step.first_task + i](first, last, thread);
    };
    const int turns = (step.items + step.grain - 1) / step.grain;
    const auto turn_of = [&](int t) { turn(t * step.grain, std::min((t + 1) * step.grain, step.items)); };
    if (turns <= pool_.size()) { // nothing to balance
        if (thread < turns)
            turn_of(thread);
    } else if (step.shrinking) {
        run_shrinking(step, counter, turn);
    } else {
        for (int t; (t = counter.next.fetch_add(1, std::memory_order_relaxed)) < turns;)
            turn_of(t);
    }
}

template <class Turn> void Pass::run_shrinking(const Step &step, Counter &counter, const Turn &turn) const {
    for (int first = counter.next.load(std::memory_order_relaxed); first < step.items;) {
        const int left = step.items - first, size = std::min(std::max(left / (2 * pool_.size()), step.grain), left);
        if (!counter.next.compare_exchange_weak(first, first + size, std::memory_order_relaxed))
            continue;
        turn(first, first + size);
        first = counter.next.load(std::memory_order_relaxed);
    }
}

void Pass::reset_counters() {
    const size_t needed = steps_.size() + prologue_.size();
    if (needed > n_counters_) {
        counters_ = std::make_unique<Counter[]>(needed);
        n_counters_ = needed;
    }
    for (size_t i = 0; i < needed; ++i)
        counters_[i].next.store(0, std::memory_order_relaxed);
}

// Runs steps from `first` on; returns the one to go on with, the number of steps after the last.
size_t Pass::run_from(size_t first, Deadline deadline, const Pauses &pauses) {
    // The step after which everyone leaves. Thread 0 sets it before the barrier of that very step, so all
    // threads agree: one that is late to look sees a later step at worst, and goes on to meet the others there.
    std::atomic<size_t> last_step{steps_.size()};
    pool_.run([&](int thread) {
        const DefaultFloatMode float_mode;
        for (size_t i = 0; first == 0 && i < prologue_.size(); ++i)
            run_step(prologue_[i], prologue_tasks_.data(), counters_[steps_.size() + i], thread);
        for (size_t i = first; i < steps_.size() && last_step.load(std::memory_order_relaxed) >= i; ++i) {
            run_step(steps_[i], tasks_.data(), counters_[i], thread);
            const auto is_time_to_leave = [&] {
                return (deadline && Clock::now() >= *deadline) || (pauses.wanted && pauses.wanted());
            };
            if (thread == 0 && i + 1 < steps_.size() && is_time_to_leave())
                last_step.store(i, std::memory_order_relaxed);
            pool_.barrier();
        }
    });
    return std::min(last_step.load(std::memory_order_relaxed) + 1, steps_.size());
}

void Pass::run(Deadline deadline, const Pauses &pauses) {
    flush_everywhere();
    reset_counters();
    for (size_t next = 0; (next = run_from(next, deadline, pauses)) < steps_.size();) {
        const auto left = Clock::now();
        if (deadline && left >= *deadline)
            throw Error(ErrorCode::timeout, "the deadline passed during a forward pass");
        pauses.pause();
        if (deadline)
            *deadline += Clock::now() - left;
    }
}

} // namespace muser::cpu

// The rendezvous. A row is queued by its own thread and lives on that thread's stack. Being the runner is
// a role, not a thread: it is free between groups, and any thread with a queued row takes it. A runner that
// gives up while it collects (cancelled, out of time, Ctrl-C) only drops the role; the window stays open
// where it was and the next thread goes on with it.
//
// Bound: a queued row waits for the group that runs, then for at most one window and one pass for every
// kMaxGroup rows ahead of it in the turn order; a slot that comes back at once cannot overtake it.
#include "sched/batcher.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "core/pause.h"
#include "sched/attendance.h"
#include "sched/order.h"

namespace muser {

namespace {

// A timed sleep of a few hundred microseconds wakes late by about this much (timer slack and scheduling), so
// the end of a window is spent looking. On a single core each look yields, so that the others can arrive.
constexpr std::chrono::microseconds kWatchTime{80};
constexpr int kMostLooks = 4000; // then sleep a little: a clock that stands still must not keep a core busy

enum class Stage {
    queued, // may be taken
    away,   // its owner is looking after cancellation and polling: must not be taken
    taken,  // in the group that runs
    done,   // the outcome is there
};

struct Entry {
    DecodeBatcher::Row row;
    Stage stage = Stage::queued;
    std::exception_ptr error;
};

using Group = std::vector<Entry *>;
using Outcomes = std::array<std::exception_ptr, kMaxGroup>;

// An exception object of its own for each row, so that no two threads ever share one.
std::exception_ptr own_copy(const std::exception_ptr &error) {
    if (!error)
        return nullptr;
    try {
        try {
            std::rethrow_exception(error);
        } catch (const Error &typed) {
            return std::make_exception_ptr(Error(typed));
        }
    } catch (...) { // not ours, or no memory for the copy
        return std::current_exception();
    }
}

} // namespace

struct DecodeBatcher::State {
    const RunGroup run;
    const std::chrono::microseconds window;
    const Now now; // cheap, and must not call back: it is read with the lock held
    const bool single_core = available_cores() == 1;
    mutable std::mutex mutex;
    std::condition_variable changed;
    Group queue;         // queued and away
    Group group;         // taken
    bool runner = false; // somebody has the role
    Attendance attendance;
    std::optional<Clock::time_point> opened; // the window, once a runner has begun to wait
    std::atomic<uint32_t> news{0};           // counts what a runner that watches the clock must not miss
    SequenceId last = kNobodyYet;
    BatcherStats stats;

    State(RunGroup run_group, std::chrono::microseconds length, Now clock)
        : run(std::move(run_group)), window(length), now(clock ? std::move(clock) : Now(&Clock::now)) {}

    using Lock = std::unique_lock<std::mutex>;

    bool arrived(SequenceId sequence) const {
        return std::any_of(queue.begin(), queue.end(), [&](const Entry *entry) {
            return entry->row.sequence == sequence && entry->stage == Stage::queued;
        });
    }

    // Waiting longer would not make the next group any wider.
    bool complete() const {
        const auto ready = std::count_if(queue.begin(), queue.end(), [](const Entry *e) { return e->stage == Stage::queued; });
        return ready >= kMaxGroup || attendance.all([&](SequenceId sequence) { return arrived(sequence); });
    }

    // After any arrival or departure: a collecting runner may be able to close now.
    void tell_runner() {
        news.fetch_add(1, std::memory_order_relaxed);
        if (opened && complete())
            changed.notify_all();
    }

    void enqueue(Entry &entry) {
        for (const Group *rows : {&queue, &group})
            for (const Entry *other : *rows)
                if (other->row.sequence == entry.row.sequence)
                    throw Error(ErrorCode::parameter,
                                "sequence " + std::to_string(entry.row.sequence) + " already has a row in flight",
                                {{"parameter", std::string("sequence")}, {"value", int64_t{entry.row.sequence}}});
        attendance.enter(entry.row.sequence);
        queue.push_back(&entry);
        tell_runner();
    }

    void withdraw(Entry &entry) {
        queue.erase(std::find(queue.begin(), queue.end(), &entry));
        if (queue.empty())
            opened.reset();
        attendance.leave(entry.row.sequence);
        tell_runner();
    }

    void wait_for_outcome(Lock &lock, Entry &entry, const Wait &wait) {
        while (entry.stage != Stage::done) {
            if (entry.stage == Stage::taken)
                changed.wait(lock, [&] { return entry.stage == Stage::done; });
            else if (!runner)
                lead(lock, wait);
            else
                sleep(lock, entry, wait);
        }
    }

    // Until the row is taken, the role is free, or it is time to look after cancellation and polling.
    void sleep(Lock &lock, Entry &entry, const Wait &wait) {
        const auto woken = [&] { return entry.stage != Stage::queued || !runner; };
        if (changed.wait_until(lock, wait.next_check(), woken))
            return;
        entry.stage = Stage::away; // or it might be run while poll throws
        lock.unlock();
        wait.check();
        lock.lock();
        entry.stage = Stage::queued;
        tell_runner();
    }

    // As the runner: one group, from collecting it to waking its owners.
    void lead(Lock &lock, const Wait &wait) {
        runner = true;
        try {
            collect(lock, wait);
            take_group();
        } catch (...) {
            if (!lock.owns_lock())
                lock.lock();
            runner = false;
            changed.notify_all();
            throw;
        }
        lock.unlock();
        const Outcomes outcomes = run_group();
        lock.lock();
        for (size_t i = 0; i < group.size(); ++i) {
            if (outcomes[i])
                attendance.leave(group[i]->row.sequence);
            group[i]->error = own_copy(outcomes[i]);
            group[i]->stage = Stage::done;
        }
        group.clear();
        runner = false;
        changed.notify_all();
    }

    void collect(Lock &lock, const Wait &wait) {
        if (!opened) {
            if (complete() || window.count() <= 0)
                return;
            opened = now();
            ++stats.rendezvous_waits;
        }
        for (auto next_check = wait.next_check(); !complete();) {
            const auto left = *opened + window - now();
            if (left.count() <= 0)
                break;
            watch(lock, left);
            if (Clock::now() >= next_check) {
                lock.unlock();
                wait.check();
                lock.lock();
                next_check = wait.next_check();
            } else {
                wait.check_without_poll();
            }
        }
        close_window();
    }

    // Sleeps, or looks, until there is news or some of the time that is left has passed.
    void watch(Lock &lock, Clock::duration left) {
        if (left > kWatchTime) {
            const Clock::duration slice = std::min<Clock::duration>(left - kWatchTime, kPollInterval);
            changed.wait_for(lock, slice, [&] { return complete(); });
            return;
        }
        const auto end = now() + left;
        const uint32_t seen = news.load(std::memory_order_relaxed);
        lock.unlock();
        int looks = 0;
        while (news.load(std::memory_order_relaxed) == seen && now() < end && ++looks < kMostLooks)
            single_core ? std::this_thread::yield() : cpu_pause();
        if (looks == kMostLooks)
            std::this_thread::sleep_for(kWatchTime);
        lock.lock();
    }

    void close_window() {
        const bool full = complete();
        ++(full ? stats.rendezvous_full : stats.rendezvous_expired);
        stats.rendezvous_wait_ns += static_cast<uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(now() - *opened).count());
        if (!full)
            attendance.window_passed([&](SequenceId sequence) { return arrived(sequence); });
        opened.reset();
    }

    void take_group() {
        Group next;
        std::copy_if(queue.begin(), queue.end(), std::back_inserter(next),
                     [](const Entry *entry) { return entry->stage == Stage::queued; });
        std::sort(next.begin(), next.end(), [&](const Entry *a, const Entry *b) {
            return turn_distance(last, a->row.sequence) < turn_distance(last, b->row.sequence);
        });
        if (next.size() > kMaxGroup)
            next.resize(kMaxGroup);
        group = std::move(next); // nothing below can fail
        for (Entry *entry : group) {
            entry->stage = Stage::taken;
            std::erase(queue, entry);
        }
        last = group.back()->row.sequence;
        ++stats.groups_by_width[group.size() - 1];
    }

    // Without the lock: the taken entries stay as they are until their outcome is installed.
    Outcomes run_group() const {
        std::array<Row, kMaxGroup> rows;
        for (size_t i = 0; i < group.size(); ++i)
            rows[i] = group[i]->row;
        try {
            return run(std::span(rows).first(group.size()));
        } catch (...) {
            Outcomes all_failed;
            all_failed.fill(std::current_exception());
            return all_failed;
        }
    }
};

DecodeBatcher::DecodeBatcher(RunGroup run, std::chrono::microseconds window, Now now)
    : state_(std::make_unique<State>(std::move(run), window, std::move(now))) {}

DecodeBatcher::~DecodeBatcher() = default;

void DecodeBatcher::decode(const Row &row, const Wait &wait) {
    Entry entry{row, Stage::queued, nullptr};
    try {
        wait.check_without_poll();
    } catch (...) {
        leave(row.sequence); // like a withdrawn row: nobody shall wait for it
        throw;
    }
    State::Lock lock(state_->mutex);
    state_->enqueue(entry);
    try {
        state_->wait_for_outcome(lock, entry, wait);
    } catch (...) {
        if (!lock.owns_lock())
            lock.lock();
        state_->withdraw(entry);
        throw;
    }
    lock.unlock();
    if (entry.error)
        std::rethrow_exception(std::move(entry.error));
}

void DecodeBatcher::leave(SequenceId sequence) {
    std::lock_guard lock(state_->mutex);
    state_->attendance.leave(sequence);
    state_->tell_runner();
}

int DecodeBatcher::expected() const {
    std::lock_guard lock(state_->mutex);
    return state_->attendance.size();
}

bool DecodeBatcher::expects_another(SequenceId sequence) const {
    std::lock_guard lock(state_->mutex);
    return !state_->attendance.all([&](SequenceId other) { return other == sequence; });
}

BatcherStats DecodeBatcher::stats() const {
    std::lock_guard lock(state_->mutex);
    BatcherStats stats = state_->stats;
    stats.queued = state_->queue.size();
    return stats;
}

} // namespace muser

// The accelerator's queue. Whoever changes the state (arrives, releases, withdraws) also decides who goes
// next and hands the turn over, all under the one mutex; a waiter only looks whether it was given the turn.
// Hence the order is exactly the policy's, whatever the operating system does with the threads.
//
// Bounds, with D the number of decoders (ids that decode) and P the patience:
//   a decoder waits at most for the turn that runs when it arrives, D - 1 decode turns, and as many prefill
//   chunks as patience strikes meanwhile: 1 + (D - 1) / P, which is one for every P >= D; of a chunk that
//   pauses, only for the part up to its next pause;
//   the k-th waiting prefill (k = 1, 2, ...) waits at most for the running turn, k * P decode turns, and
//   the k - 1 chunks ahead of it; P more for each of their pauses. Without patience it waits until no decoder does.
#include "sched/scheduler.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "sched/order.h"

namespace muser {

namespace {

struct Ids {
    std::array<SequenceId, kMaxGroup> id{};
    size_t count = 0;

    const SequenceId *begin() const { return id.data(); }
    const SequenceId *end() const { return id.data() + count; }
    bool contains(SequenceId wanted) const { return std::find(begin(), end(), wanted) != end(); }
};

// Lives on the stack of the thread that waits.
struct Request {
    Work work;
    Ids ids;
    bool paused = false; // a prefill in the middle of its turn
    bool granted = false;
};

// Of a group, the member whose turn comes first stands for all.
uint32_t distance(SequenceId last, const Ids &ids) {
    uint32_t least = turn_distance(last, ids.id[0]);
    for (SequenceId id : ids)
        least = std::min(least, turn_distance(last, id));
    return least;
}

Error sequence_error(SequenceId sequence, const char *what) {
    return Error(ErrorCode::parameter, "sequence " + std::to_string(sequence) + what,
                 {{"parameter", std::string("sequence")}, {"value", int64_t{sequence}}});
}

} // namespace

struct AcceleratorScheduler::State {
    const std::optional<int> patience;
    mutable std::mutex mutex; // guards everything below
    std::condition_variable changed;
    std::vector<Request *> queue; // in order of arrival; always with room for one more, who has the turn and may pause
    Ids active;                   // empty: the accelerator is free
    SequenceId last = kNobodyYet; // the decoder that had the last turn
    int passed_over = 0;          // decode turns since the first waiting prefill became the first
    std::optional<std::string> cause;
    std::atomic<bool> closed{false};          // these two are also read without the lock, between
    std::atomic<uint64_t> decodes_waiting{0}; // chunks, passes and the steps of one
    SchedulerStats stats;

    explicit State(std::optional<int> prefill_patience) : patience(prefill_patience) {}

    void refuse_if_down() const {
        if (closed)
            throw closed_error();
        if (cause)
            throw Error(ErrorCode::unhealthy, "the model is unhealthy: " + *cause, {{"cause", *cause}});
    }

    void refuse_duplicates(const Ids &ids) const {
        for (SequenceId id : ids) {
            bool taken = active.contains(id);
            for (const Request *other : queue)
                taken = taken || other->ids.contains(id);
            if (taken)
                throw sequence_error(id, " is already queued or running");
        }
    }

    Request *first_decoder() const {
        Request *first = nullptr;
        for (Request *request : queue)
            if (request->work == Work::decode &&
                (!first || distance(last, request->ids) < distance(last, first->ids)))
                first = request;
        return first;
    }

    Request *first_prefill() const {
        for (Request *request : queue)
            if (request->work == Work::prefill)
                return request;
        return nullptr;
    }

    // The turn order moves past the members of the group, but never past a decoder that still waits: an
    // id inside the span of somebody's group would starve. So every turn brings each waiter closer.
    void move_past(const Ids &group) {
        const Request *next = first_decoder();
        uint32_t farthest = distance(last, group);
        for (SequenceId id : group)
            if (const uint32_t turns = turn_distance(last, id); !next || turns < distance(last, next->ids))
                farthest = std::max(farthest, turns);
        last = static_cast<SequenceId>(static_cast<uint32_t>(last) + farthest + 1);
    }

    void leave_queue(Request *request) {
        queue.erase(std::find(queue.begin(), queue.end(), request));
        if (request->work == Work::decode)
            decodes_waiting.fetch_sub(1, std::memory_order_relaxed);
        else if (!first_prefill())
            passed_over = 0;
    }

    void grant_decode(Request *request) {
        leave_queue(request);
        move_past(request->ids);
        if (first_prefill())
            ++passed_over;
        ++stats.decode_turns;
    }

    void grant_prefill(Request *request, bool before_decoder) {
        leave_queue(request);
        passed_over = 0;
        stats.prefill_turns += !request->paused;
        stats.patience_turns += before_decoder;
    }

    // The policy. Called whenever the accelerator may have become free or somebody has arrived.
    void grant_next() {
        if (active.count > 0 || closed || cause)
            return;
        Request *decoder = first_decoder(), *prefill = first_prefill();
        if (!decoder && !prefill)
            return;
        const bool patience_is_over = prefill && patience && passed_over >= *patience;
        Request *next = decoder && !patience_is_over ? decoder : prefill;
        if (next == decoder)
            grant_decode(next);
        else
            grant_prefill(next, decoder != nullptr);
        active = next->ids;
        next->granted = true;
        changed.notify_all();
    }

    void withdraw(Request *request) {
        if (request->granted)
            active = {}; // given the turn while it was giving up
        else
            leave_queue(request);
        grant_next();
    }

    void acquire(Request &request, const Wait &wait) {
        wait.check_without_poll();
        std::unique_lock lock(mutex);
        refuse_if_down();
        refuse_duplicates(request.ids);
        queue.reserve(queue.size() + 2);
        queue.push_back(&request);
        if (request.work == Work::decode)
            decodes_waiting.fetch_add(1, std::memory_order_relaxed);
        await_turn(lock, request, wait);
    }

    void let_decoders_in(const Wait &wait) {
        std::unique_lock lock(mutex);
        if (!first_decoder())
            return;
        Request request{Work::prefill, active, true};
        queue.insert(queue.begin(), &request); // the first prefill from now on; there is room
        active = {};
        ++stats.prefill_pauses;
        await_turn(lock, request, wait);
    }

    void await_turn(std::unique_lock<std::mutex> &lock, Request &request, const Wait &wait) {
        grant_next();
        try {
            while (!request.granted)
                sleep(lock, request, wait);
            refuse_if_down(); // latched between the grant and now: this turn has not started
        } catch (...) {
            if (!lock.owns_lock())
                lock.lock();
            withdraw(&request);
            throw;
        }
    }

    void sleep(std::unique_lock<std::mutex> &lock, const Request &request, const Wait &wait) {
        refuse_if_down();
        const auto woken = [&] { return request.granted || closed || cause; };
        if (changed.wait_until(lock, wait.next_check(), woken))
            return;
        lock.unlock();
        wait.check();
        lock.lock();
    }

    void release() noexcept {
        std::lock_guard lock(mutex);
        active = {};
        grant_next();
    }
};

AcceleratorScheduler::AcceleratorScheduler(std::optional<int> prefill_patience) {
    if (prefill_patience && *prefill_patience < 1)
        throw parameter_error("prefill_patience", "must be at least 1", *prefill_patience);
    state_ = std::make_unique<State>(prefill_patience);
}

AcceleratorScheduler::~AcceleratorScheduler() = default;

AcceleratorScheduler::Permit AcceleratorScheduler::acquire(Work work, SequenceId sequence, const Wait &wait) {
    Request request{work, {{sequence}, 1}};
    state_->acquire(request, wait);
    Permit permit;
    permit.owner_ = this;
    return permit;
}

AcceleratorScheduler::Permit AcceleratorScheduler::acquire_group(std::span<const SequenceId> sequences,
                                                                 const Wait &wait) {
    if (sequences.empty() || sequences.size() > kMaxGroup)
        throw parameter_error("sequences", "must hold 1.." + std::to_string(kMaxGroup) + " ids",
                              static_cast<int64_t>(sequences.size()));
    Request request{Work::decode, {}};
    for (SequenceId id : sequences) {
        if (request.ids.contains(id))
            throw sequence_error(id, " is twice in the group");
        request.ids.id[request.ids.count++] = id;
    }
    state_->acquire(request, wait);
    Permit permit;
    permit.owner_ = this;
    return permit;
}

void AcceleratorScheduler::latch(const std::string &cause) {
    std::lock_guard lock(state_->mutex);
    if (!state_->cause)
        state_->cause = cause;
    state_->changed.notify_all();
}

std::optional<std::string> AcceleratorScheduler::unhealthy_cause() const {
    std::lock_guard lock(state_->mutex);
    return state_->cause;
}

void AcceleratorScheduler::close() {
    std::lock_guard lock(state_->mutex);
    state_->closed = true;
    state_->changed.notify_all();
}

bool AcceleratorScheduler::decode_waiting() const {
    return state_->decodes_waiting.load(std::memory_order_relaxed) > 0;
}

bool AcceleratorScheduler::is_closed() const { return state_->closed.load(std::memory_order_relaxed); }

SchedulerStats AcceleratorScheduler::stats() const {
    std::lock_guard lock(state_->mutex);
    SchedulerStats stats = state_->stats;
    stats.waiting_decodes = state_->decodes_waiting.load(std::memory_order_relaxed);
    stats.waiting_prefills = state_->queue.size() - stats.waiting_decodes;
    return stats;
}

AcceleratorScheduler::Permit::Permit(Permit &&other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}

AcceleratorScheduler::Permit &AcceleratorScheduler::Permit::operator=(Permit &&other) noexcept {
    if (this != &other) {
        release();
        owner_ = std::exchange(other.owner_, nullptr);
    }
    return *this;
}

AcceleratorScheduler::Permit::~Permit() { release(); }

void AcceleratorScheduler::Permit::release() noexcept {
    if (AcceleratorScheduler *owner = std::exchange(owner_, nullptr))
        owner->state_->release();
}

void AcceleratorScheduler::Permit::let_decoders_in(const Wait &wait) {
    AcceleratorScheduler *owner = std::exchange(owner_, nullptr); // nobody's while others may have the turn
    owner->state_->let_decoders_in(wait);
    owner_ = owner;
}

} // namespace muser

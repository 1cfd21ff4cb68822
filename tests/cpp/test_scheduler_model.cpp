// Random scripts of arrivals, releases, pauses and withdrawals, compared turn by turn with a slow model of the
// policy that walks the circle of ids one by one. The stated bounds are checked on every wait.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "callers.h"
#include "sched/scheduler.h"

using namespace muser;
using namespace muser::test;

namespace {

constexpr int kCircle = 12; // ids are 0 .. kCircle - 1

struct Waiter {
    int name; // unique in a script
    Work work;
    std::set<int> ids;
    int prefills_ahead = 0;
    int decode_turns = 0, prefill_turns = 0; // granted to others while it waits
    std::set<int> ids_served;                // first ids of these decode turns
    int pauses_ahead = 0;                    // of prefills that went first, while it waits
};

// The policy, as plainly as possible.
struct Model {
    std::optional<int> patience;
    std::vector<Waiter> waiting; // in order of arrival
    std::optional<Waiter> active;
    int last = kCircle - 1;
    int passed_over = 0;

    Waiter *first_of(Work work) {
        if (work == Work::prefill) {
            for (Waiter &w : waiting)
                if (w.work == work)
                    return &w;
            return nullptr;
        }
        for (int step = 1; step <= kCircle; ++step)
            if (Waiter *w = decoder_of((last + step) % kCircle))
                return w;
        return nullptr;
    }

    Waiter *decoder_of(int id) {
        for (Waiter &w : waiting)
            if (w.work == Work::decode && w.ids.count(id))
                return &w;
        return nullptr;
    }

    void remove(int name) {
        std::erase_if(waiting, [&](const Waiter &w) { return w.name == name; });
        if (!first_of(Work::prefill))
            passed_over = 0;
    }

    // The running prefill lets decoders in: it waits before all other prefills.
    void pause() {
        for (Waiter &w : waiting)
            w.pauses_ahead += w.work == Work::prefill;
        Waiter paused = *active;
        paused.prefills_ahead = paused.decode_turns = paused.prefill_turns = paused.pauses_ahead = 0;
        paused.ids_served.clear();
        waiting.insert(waiting.begin(), paused);
        active.reset();
    }

    void advance() {
        if (active)
            return;
        Waiter *decoder = first_of(Work::decode), *prefill = first_of(Work::prefill);
        Waiter *next = decoder ? decoder : prefill;
        if (prefill && patience && passed_over >= *patience)
            next = prefill;
        if (!next)
            return;
        active = *next;
        remove(active->name);
        int first = -1;
        if (active->work == Work::decode) {
            const int start = last;
            for (int step = 1; step <= kCircle; ++step) { // past the members, up to the next who waits
                const int id = (start + step) % kCircle;
                if (decoder_of(id))
                    break;
                if (active->ids.count(id)) {
                    first = first < 0 ? id : first;
                    last = id;
                }
            }
            if (first_of(Work::prefill))
                ++passed_over;
        } else {
            passed_over = 0;
        }
        for (Waiter &w : waiting) {
            ++(active->work == Work::decode ? w.decode_turns : w.prefill_turns);
            if (active->work == Work::decode)
                w.ids_served.insert(first);
        }
    }
};

void check_bounds(const Waiter &w, std::optional<int> patience) {
    if (w.work == Work::decode) {
        // Each turn of another decoder used up an id of its own, none of them ours: at most decoders - 1.
        CHECK(w.decode_turns == static_cast<int>(w.ids_served.size()));
        CHECK(w.decode_turns <= kCircle - 1);
        if (patience)
            CHECK(w.prefill_turns <= 1 + w.decode_turns / *patience);
        else
            CHECK(w.prefill_turns == 0);
    } else if (patience) {
        CHECK(w.decode_turns <= (w.prefills_ahead + 1 + w.pauses_ahead) * *patience);
        CHECK(w.prefill_turns <= w.prefills_ahead + w.pauses_ahead);
    }
}

// One script: real threads, but one event at a time.
class Script {
  public:
    Script(std::optional<int> patience, uint32_t seed) : scheduler_(patience), random_(seed) { model_.patience = patience; }

    ~Script() {
        for (auto &[name, thread] : threads_)
            thread->let_go = true;
    }

    void step() {
        const int choice = pick(0, 99);
        if (choice < 50 && model_.waiting.size() < 8)
            arrive();
        else if (choice < 62 && model_.active && model_.active->work == Work::prefill && model_.first_of(Work::decode))
            pause();
        else if (choice < 98)
            release();
        else if (!model_.waiting.empty())
            cancel();
        settle();
    }

    void drain() {
        while (model_.active) {
            release();
            settle();
        }
    }

    size_t turns() const { return expected_.size(); }
    uint64_t pauses() const { return scheduler_.stats().prefill_pauses; }

  private:
    struct Thread {
        std::atomic<bool> let_go{false}, cancelled{false}, pause{false};
        std::unique_ptr<Caller> caller;
    };

    int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

    void arrive() {
        std::vector<int> free_ids;
        for (int id = 0; id < kCircle; ++id) {
            const auto has = [&](const Waiter &w) { return w.ids.count(id) > 0; };
            if (!(model_.active && has(*model_.active)) && std::none_of(model_.waiting.begin(), model_.waiting.end(), has))
                free_ids.push_back(id);
        }
        if (free_ids.empty())
            return;
        std::shuffle(free_ids.begin(), free_ids.end(), random_);
        const Work work = pick(0, 3) ? Work::decode : Work::prefill;
        const int wanted = work == Work::prefill || pick(0, 2) ? 1 : pick(2, kMaxGroup);
        free_ids.resize(std::min<size_t>(free_ids.size(), static_cast<size_t>(wanted)));

        Waiter waiter{next_name_++, work, {free_ids.begin(), free_ids.end()}, 0, 0, 0, {}};
        for (const Waiter &w : model_.waiting)
            waiter.prefills_ahead += w.work == Work::prefill;
        auto thread = std::make_unique<Thread>();
        thread->caller = std::make_unique<Caller>([this, self = thread.get(), name = waiter.name, work, ids = free_ids] {
            const Wait wait{{}, &self->cancelled, {}};
            AcceleratorScheduler::Permit permit =
                work == Work::prefill ? scheduler_.acquire(work, ids[0], wait) : scheduler_.acquire_group(ids, wait);
            do {
                granted_.push_back(name); // plain: the permit guards it
                n_granted_.store(granted_.size());
                eventually([&] { return self->let_go.load() || self->pause.load(); });
                if (self->pause)
                    permit.let_decoders_in(wait);
            } while (self->pause.exchange(false));
        });
        threads_[waiter.name] = std::move(thread);
        model_.waiting.push_back(waiter);
        if (model_.active) // else it is granted at once, and settle() waits for that
            settle();
    }

    void release() {
        if (!model_.active)
            return;
        Thread &thread = *threads_.at(model_.active->name);
        thread.let_go = true;
        REQUIRE(thread.caller->wait()); // its ids are free again
        check_bounds(*model_.active, model_.patience);
        model_.active.reset();
    }

    void pause() {
        threads_.at(model_.active->name)->pause = true;
        model_.pause();
    }

    void cancel() {
        const int name = model_.waiting[static_cast<size_t>(pick(0, static_cast<int>(model_.waiting.size()) - 1))].name;
        Thread &thread = *threads_.at(name);
        thread.cancelled = true;
        REQUIRE(thread.caller->wait());
        CHECK(thread.caller->code() == ErrorCode::cancelled);
        threads_.erase(name);
        model_.remove(name);
    }

    // Waits until the scheduler is where the model says it must be, and compares.
    void settle() {
        const bool was_active = model_.active.has_value();
        model_.advance();
        if (model_.active && !was_active)
            expected_.push_back(model_.active->name);
        REQUIRE(eventually([&] {
            const SchedulerStats stats = scheduler_.stats();
            return n_granted_.load() >= expected_.size() &&
                   stats.waiting_decodes + stats.waiting_prefills == model_.waiting.size();
        }));
        REQUIRE(n_granted_.load() == expected_.size());
        if (!expected_.empty())
            REQUIRE(granted_.back() == expected_.back());
        std::erase_if(threads_, [](const auto &entry) { return entry.second->caller->done(); });
    }

    AcceleratorScheduler scheduler_;
    Model model_;
    std::mt19937 random_;
    int next_name_ = 0;
    std::vector<int> granted_, expected_; // names, in order of turns
    std::atomic<size_t> n_granted_{0};
    std::map<int, std::unique_ptr<Thread>> threads_;
};

} // namespace

TEST_CASE("every turn of random scripts is the model's, and every wait is within its bound") {
    const std::optional<int> patiences[] = {1, 2, 5, 16, std::nullopt};
    size_t turns = 0;
    uint64_t pauses = 0;
    uint32_t seed = 1;
    for (const auto &patience : patiences)
        for (int script = 0; script < 2; ++script) {
            CAPTURE(patience.value_or(0));
            CAPTURE(seed);
            Script run(patience, seed++);
            for (int i = 0; i < 500; ++i)
                run.step();
            run.drain();
            turns += run.turns();
            pauses += run.pauses();
        }
    CHECK(turns > 2000);
    CHECK(pauses > 100);
}

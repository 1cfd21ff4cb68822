// The fixture of the batcher tests: a DecodeBatcher on a fake device that can be held, with a clock that
// stands still until told.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "callers.h"
#include "sched/batcher.h"

namespace muser::test {

using Row = DecodeBatcher::Row;
using Outcomes = std::array<std::exception_ptr, kMaxGroup>;
using Ids = std::vector<SequenceId>;

inline Outcomes succeed(std::span<const Row>) { return {}; }

// A batcher on a fake device that can be held, and a clock that stands still until told.
class Rendezvous {
  public:
    Rendezvous()
        : batcher([this](std::span<const Row> rows) { return run(rows); }, kRendezvousWindow,
                  [this] { return Clock::time_point(std::chrono::nanoseconds(nanoseconds_.load())); }) {}

    ~Rendezvous() {
        let_go();
        callers_.clear();
    }

    // Starts a caller and returns once its row is queued, runs, or has ended.
    Caller &add(SequenceId sequence, Wait wait = {}) {
        const uint64_t before = batcher.stats().queued;
        const size_t passes = started_.load();
        callers_.push_back(std::make_unique<Caller>([this, sequence, wait] { batcher.decode(sequence, 100 + sequence, wait); }));
        Caller &caller = *callers_.back();
        REQUIRE(eventually([&] { return batcher.stats().queued > before || started_ > passes || caller.done(); }));
        return caller;
    }

    void advance(std::chrono::nanoseconds time) { nanoseconds_ += time.count(); }
    void hold() { held_ = true; }
    void let_go() { held_ = false; }
    bool running(size_t pass) const {
        return eventually([&] { return started_.load() > pass; });
    }

    // Puts these sequences into their decode phase, without windows: all in groups of the first four.
    void enter(const Ids &ids) {
        hold();
        std::vector<Caller *> primed = {&add(ids[0])};
        REQUIRE(running(started_ - 1));
        for (size_t i = 1; i < ids.size(); ++i)
            primed.push_back(&add(ids[i]));
        let_go();
        for (Caller *caller : primed) // the first one does not come back: the others wait for it in vain
            REQUIRE(eventually([&] {
                advance(kRendezvousWindow);
                return caller->done();
            }));
        REQUIRE(batcher.expected() == static_cast<int>(ids.size()));
        groups.clear();
        base = batcher.stats();
    }

    DecodeBatcher batcher;
    std::vector<Ids> groups; // plain: one pass at a time
    BatcherStats base;       // when enter() was through
    std::function<Outcomes(std::span<const Row>)> outcome = succeed;

  private:
    Outcomes run(std::span<const Row> rows) {
        Ids ids;
        for (const Row &row : rows) {
            if (row.token != 100 + row.sequence)
                throw std::runtime_error("a row with another row's token");
            ids.push_back(row.sequence);
        }
        groups.push_back(ids);
        ++started_;
        eventually([&] { return !held_; });
        return outcome(rows);
    }

    std::atomic<int64_t> nanoseconds_{1'000'000'000};
    std::atomic<bool> held_{false};
    std::atomic<size_t> started_{0};
    std::vector<std::unique_ptr<Caller>> callers_;
};

} // namespace muser::test

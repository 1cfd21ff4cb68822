// Threads that queue for an accelerator, in an order that a test knows.
#pragma once

#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "callers.h"
#include "sched/scheduler.h"

namespace muser::test {

inline uint64_t waiting(const AcceleratorScheduler &scheduler) {
    const SchedulerStats stats = scheduler.stats();
    return stats.waiting_decodes + stats.waiting_prefills;
}

// Threads that queue one request each, in a known order, and log their turn.
class Queue {
  public:
    explicit Queue(AcceleratorScheduler &scheduler) : scheduler_(scheduler) {}

    Caller &add(Work work, std::vector<SequenceId> ids, Wait wait = {}) {
        const uint64_t before = waiting(scheduler_);
        callers_.push_back(std::make_unique<Caller>([this, work, ids, wait] {
            AcceleratorScheduler::Permit permit = work == Work::prefill ? scheduler_.acquire(work, ids[0], wait)
                                                  : scheduler_.acquire_group(ids, wait);
            turns.push_back(ids[0]);
        }));
        REQUIRE(eventually([&] { return waiting(scheduler_) == before + 1; }));
        return *callers_.back();
    }
    void finish() {
        for (auto &caller : callers_)
            REQUIRE(caller->wait());
    }

    std::vector<SequenceId> turns; // a plain vector: only the owner of the accelerator writes

  private:
    AcceleratorScheduler &scheduler_;
    std::vector<std::unique_ptr<Caller>> callers_;
};

} // namespace muser::test

// The scheduler's promises, one case each: exclusivity, the turn order, the bounds, and every way out of a
// wait. test_scheduler_model.cpp compares it with a slow model of the policy.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "callers.h"
#include "queue.h"
#include "sched/scheduler.h"

using namespace muser;
using namespace muser::test;
using namespace std::chrono_literals;

using Permit = AcceleratorScheduler::Permit;

namespace {

Wait until(Clock::time_point deadline) { return {deadline, nullptr, {}}; }
Wait soon() { return until(Clock::now() + 10s); } // an end for a test that would otherwise hang

ErrorCode code_of(const std::function<void()> &call) {
    try {
        call();
    } catch (const Error &error) {
        return error.code();
    }
    FAIL("nothing was thrown");
    return ErrorCode::internal;
}

// Everybody who is not the owner waits, at every turn: the order is then fully determined.
std::vector<SequenceId> saturated_decoders(AcceleratorScheduler &scheduler, const std::vector<SequenceId> &ids,
                                           size_t total) {
    std::vector<SequenceId> turns;
    std::atomic<bool> over{false};
    {
        std::vector<std::unique_ptr<Caller>> threads;
        for (SequenceId id : ids)
            threads.push_back(std::make_unique<Caller>([&, id] {
                while (!over) {
                    Permit permit = scheduler.acquire(Work::decode, id, {});
                    if (turns.size() < total)
                        turns.push_back(id);
                    over = over || turns.size() == total;
                    eventually([&] { return over || scheduler.stats().waiting_decodes == ids.size() - 1; });
                }
            }));
    }
    return turns;
}

} // namespace

TEST_CASE("one owner at a time, whatever it does") {
    AcceleratorScheduler scheduler;
    int inside = 0; // plain: TSan sees two owners at once even when the counts do not
    long turns = 0;
    {
        std::vector<std::unique_ptr<Caller>> threads;
        for (int id = 0; id < 8; ++id)
            threads.push_back(std::make_unique<Caller>([&, id] {
                for (int i = 0; i < 300; ++i) {
                    Permit permit = scheduler.acquire(id % 2 ? Work::decode : Work::prefill, id, {});
                    if (++inside != 1)
                        throw std::runtime_error("two owners");
                    ++turns;
                    --inside;
                }
            }));
        for (auto &thread : threads) {
            REQUIRE(thread->wait());
            CHECK(thread->other() == "");
        }
    }
    CHECK(turns == 8 * 300);
    const SchedulerStats stats = scheduler.stats();
    CHECK(stats.decode_turns == 1200);
    CHECK(stats.prefill_turns == 1200);
    CHECK(stats.waiting_decodes + stats.waiting_prefills == 0);
}

TEST_CASE("a waiting decoder goes before any prefill") {
    AcceleratorScheduler scheduler;
    Queue queue(scheduler);
    Permit held = scheduler.acquire(Work::prefill, 9, {});
    queue.add(Work::prefill, {0});
    CHECK_FALSE(scheduler.decode_waiting());
    queue.add(Work::prefill, {1});
    queue.add(Work::decode, {3});
    queue.add(Work::decode, {2});
    CHECK(scheduler.decode_waiting());
    held.release();
    queue.finish();
    CHECK(queue.turns == std::vector<SequenceId>{2, 3, 0, 1});
    CHECK_FALSE(scheduler.decode_waiting());
}

TEST_CASE("decoders take turns in ascending cyclic order after the last one") {
    AcceleratorScheduler scheduler;
    Queue queue(scheduler);
    Permit held = scheduler.acquire(Work::decode, 5, {});
    for (SequenceId id : {7, 2, 6, 4})
        queue.add(Work::decode, {id});
    held.release();
    queue.finish();
    CHECK(queue.turns == std::vector<SequenceId>{6, 7, 2, 4});
}

TEST_CASE("a hot slot gets its share and no more: exact cyclic order over 10,000 turns") {
    AcceleratorScheduler scheduler;
    const std::vector<SequenceId> ids = {0, 1, 2, 3};
    const auto turns = saturated_decoders(scheduler, ids, 10'000);
    REQUIRE(turns.size() == 10'000);
    for (size_t i = 1; i < turns.size(); ++i)
        REQUIRE(turns[i] == (turns[i - 1] + 1) % 4);
}

TEST_CASE("a waiting prefill is served after exactly `patience` decode turns") {
    for (int patience : {1, 3, 16}) {
        CAPTURE(patience);
        AcceleratorScheduler scheduler(patience);
        std::vector<uint64_t> served_after; // decode turns that passed before each chunk
        Caller prefill([&] {
            uint64_t before = 0;
            for (int chunk = 0; chunk < 10; ++chunk) {
                // The first chunk comes before anybody decodes; from then on decoders wait at every turn.
                Permit permit = scheduler.acquire(Work::prefill, 9, {});
                eventually([&] { return chunk > 0 || scheduler.stats().waiting_decodes == 2; });
                const uint64_t turns = scheduler.stats().decode_turns;
                served_after.push_back(turns - before);
                before = turns;
            }
        });
        REQUIRE(eventually([&] { return scheduler.stats().prefill_turns == 1; }));
        std::atomic<bool> over{false};
        std::vector<std::unique_ptr<Caller>> decoders;
        for (SequenceId id : {0, 1})
            decoders.push_back(std::make_unique<Caller>([&, id] {
                while (!over) {
                    Permit permit = scheduler.acquire(Work::decode, id, {});
                    eventually([&] { // the next chunk and the other decoder are both waiting
                        const SchedulerStats stats = scheduler.stats();
                        return over || (stats.waiting_decodes == 1 && (stats.waiting_prefills == 1 || prefill.done()));
                    });
                }
            }));
        CHECK(prefill.wait());
        over = true;
        decoders.clear();
        REQUIRE(served_after.size() == 10);
        for (size_t i = 2; i < 10; ++i) // the turn that runs while the next chunk arrives does not count
            CHECK(served_after[i] == static_cast<uint64_t>(patience) + 1);
        CHECK(scheduler.stats().patience_turns == 9);
    }
}

TEST_CASE("without patience, decode is absolute") {
    AcceleratorScheduler scheduler(std::nullopt);
    Caller *prefill = nullptr;
    Queue queue(scheduler);
    {
        Permit held = scheduler.acquire(Work::decode, 8, {});
        prefill = &queue.add(Work::prefill, {9});
        Caller decoders([&] { saturated_decoders(scheduler, {0, 1, 2}, 500); });
        REQUIRE(eventually([&] { return scheduler.stats().waiting_decodes == 3; }));
        CHECK(scheduler.stats().prefill_turns == 0);
        held.release();
    }
    queue.finish();
    CHECK(prefill->ok());
    CHECK(scheduler.stats().patience_turns == 0);
    CHECK(scheduler.stats().decode_turns >= 501);
}

TEST_CASE("prefills are served in order of arrival, and patience counts anew for each") {
    AcceleratorScheduler scheduler(2);
    Queue queue(scheduler);
    Permit held = scheduler.acquire(Work::decode, 0, {});
    for (SequenceId id : {12, 10, 11})
        queue.add(Work::prefill, {id});
    for (SequenceId id : {1, 2, 3, 4, 5})
        queue.add(Work::decode, {id});
    held.release();
    queue.finish();
    CHECK(queue.turns == std::vector<SequenceId>{1, 2, 12, 3, 4, 10, 5, 11});
    CHECK(scheduler.stats().patience_turns == 2);
}

TEST_CASE("a stream of prefills does not starve a decoder") {
    AcceleratorScheduler scheduler;
    std::atomic<bool> over{false};
    std::vector<std::unique_ptr<Caller>> prefills;
    for (SequenceId id : {10, 11, 12})
        prefills.push_back(std::make_unique<Caller>([&, id] {
            while (!over) {
                Permit permit = scheduler.acquire(Work::prefill, id, {});
                eventually([&] { return over || waiting(scheduler) >= 2; });
            }
        }));
    for (int i = 0; i < 200; ++i) {
        Permit permit = scheduler.acquire(Work::decode, 1, {});
        const SchedulerStats at_turn = scheduler.stats();
        REQUIRE(at_turn.decode_turns == static_cast<uint64_t>(i) + 1);
    }
    over = true;
    prefills.clear();
    CHECK(scheduler.stats().decode_turns == 200);
}

TEST_CASE("a group acquires once for all its rows") {
    AcceleratorScheduler scheduler;
    Queue queue(scheduler);
    const std::vector<SequenceId> ids = {4, 1, 3};
    Permit held = scheduler.acquire_group(ids, {});
    CHECK(scheduler.stats().decode_turns == 1);
    for (SequenceId id : ids) // all of them are running
        CHECK(code_of([&] { scheduler.acquire(Work::decode, id, {}); }) == ErrorCode::parameter);
    for (SequenceId id : {0, 2, 5})
        queue.add(Work::decode, {id});
    held.release();
    queue.finish();
    CHECK(queue.turns == std::vector<SequenceId>{5, 0, 2}); // nobody waited inside 1..4: the order moved past 4
}

TEST_CASE("an id inside the span of a group that comes back at once does not starve") {
    AcceleratorScheduler scheduler;
    Queue queue(scheduler);
    Permit held = scheduler.acquire(Work::decode, 1, {});
    queue.add(Work::decode, {2, 7});
    queue.add(Work::decode, {5});
    queue.add(Work::decode, {9});
    held.release();
    queue.finish();
    CHECK(queue.turns == std::vector<SequenceId>{2, 5, 9}); // after 2, not after 7

    std::vector<SequenceId> turns;
    std::atomic<bool> over{false};
    const auto loop = [&](std::vector<SequenceId> ids) {
        while (!over) {
            Permit permit = scheduler.acquire_group(ids, {});
            turns.push_back(ids[0]);
            over = over || turns.size() == 200;
            eventually([&] { return over || scheduler.stats().waiting_decodes == 1; });
        }
    };
    {
        Caller group([&] { loop({2, 7}); }), alone([&] { loop({5}); });
    }
    for (size_t i = 0; i + 2 < turns.size(); ++i) {
        const bool starved = turns[i] == 2 && turns[i + 1] == 2 && turns[i + 2] == 2;
        REQUIRE_FALSE(starved);
    }
}

TEST_CASE("a permit is released when its owner throws, and can be moved and released early") {
    AcceleratorScheduler scheduler;
    CHECK_THROWS_AS(
        [&] {
            Permit permit = scheduler.acquire(Work::decode, 0, {});
            throw std::runtime_error("the pass failed");
        }(),
        std::runtime_error);
    Permit first = scheduler.acquire(Work::decode, 0, soon());
    Permit second = std::move(first);
    CHECK_FALSE(static_cast<bool>(first));
    CHECK(static_cast<bool>(second));
    CHECK(code_of([&] { scheduler.acquire(Work::decode, 1, until(Clock::now() + 1ms)); }) == ErrorCode::timeout);
    second.release();
    second.release();
    second = scheduler.acquire(Work::decode, 1, soon());
    second = Permit();
    CHECK(static_cast<bool>(scheduler.acquire(Work::prefill, 2, soon())));
}

TEST_CASE("latch: every waiter and every later call says why; the owner's permit stays valid") {
    AcceleratorScheduler scheduler;
    Queue queue(scheduler);
    Permit held = scheduler.acquire(Work::decode, 0, {});
    std::vector<Caller *> waiters = {&queue.add(Work::decode, {1}), &queue.add(Work::decode, {2, 3}),
                                     &queue.add(Work::prefill, {4})};
    CHECK_FALSE(scheduler.unhealthy_cause());
    scheduler.latch("commit 17 never completed");
    scheduler.latch("a later cause");
    queue.finish();
    for (Caller *waiter : waiters) {
        REQUIRE(waiter->code() == ErrorCode::unhealthy);
        const Error::Field cause = {"cause", std::string("commit 17 never completed")};
        CHECK(waiter->error().fields() == std::vector<Error::Field>{cause});
    }
    CHECK(static_cast<bool>(held));
    held.release();
    CHECK(code_of([&] { scheduler.acquire(Work::decode, 5, {}); }) == ErrorCode::unhealthy);
    CHECK(scheduler.unhealthy_cause() == "commit 17 never completed");
    CHECK(waiting(scheduler) == 0);
    CHECK(queue.turns.empty());
}

TEST_CASE("latch: a turn that was given but has not started does not start") {
    AcceleratorScheduler scheduler;
    Queue queue(scheduler);
    Permit held = scheduler.acquire(Work::decode, 0, {});
    std::atomic<bool> in_poll{false}, latched{false};
    const auto poll = [&] {
        in_poll = true;
        eventually([&] { return latched.load(); });
    };
    Caller &waiter = queue.add(Work::decode, {1}, {{}, nullptr, poll});
    REQUIRE(eventually([&] { return in_poll.load(); }));
    held.release(); // given to 1, which is inside poll
    CHECK(scheduler.stats().decode_turns == 2);
    scheduler.latch("the pass that has just ended");
    latched = true;
    queue.finish();
    CHECK(waiter.code() == ErrorCode::unhealthy);
    CHECK(queue.turns.empty());
}

TEST_CASE("close: every waiter and every later call gets ClosedError, also when unhealthy") {
    AcceleratorScheduler scheduler;
    Queue queue(scheduler);
    Permit held = scheduler.acquire(Work::decode, 0, {});
    Caller &decode = queue.add(Work::decode, {1}), &prefill = queue.add(Work::prefill, {4});
    scheduler.close();
    queue.finish();
    CHECK(decode.code() == ErrorCode::closed);
    CHECK(prefill.code() == ErrorCode::closed);
    held.release();
    scheduler.latch("after closing");
    CHECK(code_of([&] { scheduler.acquire(Work::prefill, 5, {}); }) == ErrorCode::closed);
}

TEST_CASE("a wait ends at its deadline, and nothing stays queued") {
    AcceleratorScheduler scheduler;
    Permit held = scheduler.acquire(Work::decode, 0, {});
    const auto start = Clock::now();
    CHECK(code_of([&] { scheduler.acquire(Work::decode, 1, until(start + 30ms)); }) == ErrorCode::timeout);
    CHECK(Clock::now() - start >= 30ms);
    CHECK(code_of([&] { scheduler.acquire(Work::prefill, 1, until(start)); }) == ErrorCode::timeout);
    CHECK(waiting(scheduler) == 0);
    CHECK_FALSE(scheduler.decode_waiting());
    held.release();
    CHECK(code_of([&] { scheduler.acquire(Work::decode, 1, until(start)); }) == ErrorCode::timeout); // free, but too late
    scheduler.acquire(Work::decode, 1, soon());
}

TEST_CASE("a wait ends when it is cancelled, and the others go on") {
    AcceleratorScheduler scheduler;
    Queue queue(scheduler);
    std::atomic<bool> cancelled{false};
    Permit held = scheduler.acquire(Work::decode, 0, {});
    Caller &victim = queue.add(Work::decode, {1}, {{}, &cancelled, {}});
    queue.add(Work::decode, {2});
    cancelled = true;
    REQUIRE(victim.wait());
    CHECK(victim.code() == ErrorCode::cancelled);
    CHECK(waiting(scheduler) == 1);
    held.release();
    queue.finish();
    CHECK(queue.turns == std::vector<SequenceId>{2});
    CHECK(code_of([&] { scheduler.acquire(Work::decode, 3, {{}, &cancelled, {}}); }) == ErrorCode::cancelled);
}

TEST_CASE("poll runs without the lock, its exception ends the wait, and a free accelerator is not polled for") {
    AcceleratorScheduler scheduler;
    int polls = 0;
    const auto poll = [&] {
        CHECK(waiting(scheduler) == 1); // would deadlock if the lock were held
        if (++polls == 3)
            throw std::runtime_error("interrupted");
    };
    Permit held = scheduler.acquire(Work::decode, 0, {{}, nullptr, poll});
    CHECK(polls == 0);
    const auto start = Clock::now();
    CHECK_THROWS_WITH(scheduler.acquire(Work::decode, 1, {{}, nullptr, poll}), "interrupted");
    CHECK(Clock::now() - start < 5s); // about 3 * kPollInterval, on a machine that may be busy
    CHECK(waiting(scheduler) == 0);
}

TEST_CASE("a turn that is given to a waiter just as it gives up goes on to the next one") {
    AcceleratorScheduler scheduler;
    Queue queue(scheduler);
    Permit held = scheduler.acquire(Work::decode, 0, {});
    std::atomic<bool> in_poll{false}, granted{false};
    const auto poll = [&] {
        in_poll = true;
        eventually([&] { return granted.load(); });
        throw std::runtime_error("interrupted");
    };
    Caller &victim = queue.add(Work::decode, {1}, {{}, nullptr, poll});
    queue.add(Work::decode, {2});
    REQUIRE(eventually([&] { return in_poll.load(); }));
    held.release(); // 1 is next, and is inside poll
    CHECK(scheduler.stats().decode_turns == 2);
    CHECK(queue.turns.empty());
    granted = true;
    queue.finish();
    CHECK(victim.other() == "interrupted");
    CHECK(queue.turns == std::vector<SequenceId>{2});
}

TEST_CASE("an id that is queued or running is refused, not hung") {
    AcceleratorScheduler scheduler;
    Queue queue(scheduler);
    Permit held = scheduler.acquire(Work::prefill, 1, {});
    queue.add(Work::decode, {2, 6});
    for (SequenceId id : {1, 2, 6})
        for (Work work : {Work::decode, Work::prefill}) {
            CAPTURE(id);
            try {
                scheduler.acquire(work, id, {});
                FAIL("accepted");
            } catch (const Error &error) {
                CHECK(error.code() == ErrorCode::parameter);
                CHECK(error.message().find(std::to_string(id)) != std::string::npos);
            }
        }
    CHECK(waiting(scheduler) == 1);
    held.release();
    queue.finish();
    scheduler.acquire(Work::decode, 1, soon());
}

TEST_CASE("group sizes outside 1..4, ids twice in a group and a patience below 1 are refused") {
    AcceleratorScheduler scheduler;
    const std::vector<std::vector<SequenceId>> wrong = {{}, {1, 2, 3, 4, 5}, {1, 1}, {1, 2, 3, 1}};
    for (const auto &ids : wrong) {
        CAPTURE(ids.size());
        CHECK(code_of([&] { scheduler.acquire_group(ids, {}); }) == ErrorCode::parameter);
    }
    CHECK(code_of([] { AcceleratorScheduler refused(0); }) == ErrorCode::parameter);
    CHECK(code_of([] { AcceleratorScheduler refused(-3); }) == ErrorCode::parameter);
    CHECK(scheduler.stats().decode_turns == 0);
}

// A prefill that lets decoders in before its turn is over (Permit::let_decoders_in), and when it should (pause_rule.h).
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <optional>
#include <vector>

#include "callers.h"
#include "queue.h"
#include "sched/pause_rule.h"
#include "sched/scheduler.h"

using namespace muser;
using namespace muser::test;
using namespace std::chrono_literals;

using Permit = AcceleratorScheduler::Permit;

namespace {
thread_local bool no_memory = false; // for operator new, in this thread
} // namespace

// Not inlined: GCC takes malloc() and delete for a mistake where it sees both.
[[gnu::noinline]] void *operator new(std::size_t size) {
    if (void *memory = no_memory ? nullptr : std::malloc(size))
        return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("nobody decodes: a pause is no pause, whoever else waits") {
    AcceleratorScheduler scheduler;
    Queue queue(scheduler);
    Permit held = scheduler.acquire(Work::prefill, 9, {});
    queue.add(Work::prefill, {1});
    held.let_decoders_in({});
    CHECK(static_cast<bool>(held));
    CHECK(queue.turns.empty());
    CHECK(scheduler.stats().prefill_pauses == 0);
    held.release();
    queue.finish();
}

TEST_CASE("decoders that wait go first, in their order; then the paused prefill, before any other") {
    AcceleratorScheduler scheduler;
    Queue queue(scheduler);
    Permit held = scheduler.acquire(Work::prefill, 9, {});
    queue.add(Work::prefill, {1});
    queue.add(Work::decode, {3});
    queue.add(Work::decode, {2});
    held.let_decoders_in({});
    CHECK(static_cast<bool>(held));
    CHECK(queue.turns == std::vector<SequenceId>{2, 3});
    CHECK(scheduler.stats().prefill_pauses == 1);
    CHECK(scheduler.stats().prefill_turns == 1);
    queue.add(Work::decode, {4});
    held.release(); // the turn is over: decode first, then the next prompt
    queue.finish();
    CHECK(queue.turns == std::vector<SequenceId>{2, 3, 4, 1});
    CHECK(scheduler.stats().prefill_turns == 2);
}

TEST_CASE("a paused prefill goes on after `patience` decode turns") {
    for (int patience : {1, 2, 5}) {
        AcceleratorScheduler scheduler(patience);
        Queue queue(scheduler);
        Permit held = scheduler.acquire(Work::prefill, 9, {});
        for (SequenceId id = 0; id < 6; ++id)
            queue.add(Work::decode, {id});
        held.let_decoders_in({});
        CHECK(queue.turns.size() == static_cast<size_t>(patience));
        CHECK(scheduler.stats().patience_turns == 1);
        held.release();
        queue.finish();
    }
}

TEST_CASE("a turn is given away and comes back without any memory, however many wait") {
    for (SequenceId decoders = 1; decoders < 6; ++decoders) {
        AcceleratorScheduler scheduler;
        Queue queue(scheduler);
        Permit held = scheduler.acquire(Work::prefill, 9, {});
        for (SequenceId id = 0; id < decoders; ++id)
            queue.add(Work::decode, {id});
        bool ran_out = false;
        no_memory = true;
        try {
            held.let_decoders_in({});
        } catch (const std::bad_alloc &) {
            ran_out = true;
        }
        no_memory = false;
        CHECK_FALSE(ran_out);
        CHECK(static_cast<bool>(held));
        CHECK(scheduler.stats().prefill_pauses == 1);
        held.release();
        queue.finish();
        CHECK(queue.turns.size() == static_cast<size_t>(decoders));
    }
}

TEST_CASE("its sequence stays taken while it is paused") {
    AcceleratorScheduler scheduler;
    Permit held = scheduler.acquire(Work::prefill, 9, {});
    Caller decoder([&] {
        Permit permit = scheduler.acquire(Work::decode, 1, {});
        CHECK_THROWS_AS(scheduler.acquire(Work::decode, 9, {}), Error);
    });
    REQUIRE(eventually([&] { return scheduler.decode_waiting(); }));
    held.let_decoders_in({});
    CHECK(decoder.wait());
    CHECK(decoder.ok());
}

TEST_CASE("cancelled, out of time, closed or unhealthy during a pause: the permit is gone, and the next one gets its turn") {
    const auto end_of = [](auto &&end, Clock::time_point deadline = Clock::now() + 30s) {
        AcceleratorScheduler scheduler;
        std::atomic<bool> cancelled{false}, let_go{false};
        Permit held = scheduler.acquire(Work::prefill, 9, {});
        Caller decoder([&] {
            Permit permit = scheduler.acquire(Work::decode, 1, {});
            end(scheduler, cancelled);
            eventually([&] { return let_go.load(); });
        });
        REQUIRE(eventually([&] { return scheduler.decode_waiting(); }));
        std::optional<ErrorCode> code;
        try {
            held.let_decoders_in({deadline, &cancelled, {}});
        } catch (const Error &error) {
            code = error.code();
        }
        CHECK_FALSE(static_cast<bool>(held));
        CHECK(scheduler.stats().waiting_prefills == 0);
        let_go = true;
        REQUIRE(decoder.wait());
        if (code == ErrorCode::cancelled || code == ErrorCode::timeout)
            CHECK(static_cast<bool>(scheduler.acquire(Work::prefill, 9, {})));
        return code;
    };
    CHECK(end_of([](auto &, auto &cancelled) { cancelled = true; }) == ErrorCode::cancelled);
    CHECK(end_of([](auto &scheduler, auto &) { scheduler.close(); }) == ErrorCode::closed);
    CHECK(end_of([](auto &scheduler, auto &) { scheduler.latch("the pass failed"); }) == ErrorCode::unhealthy);
    CHECK(end_of([](auto &, auto &) {}, Clock::now() + 20ms) == ErrorCode::timeout);
}

TEST_CASE("a stretch is at least 20 ms and at least a decode pass, and can be fixed") {
    PauseRule rule;
    CHECK(rule.stretch() == 20ms);
    rule.decode_took(5ms);
    CHECK(rule.stretch() == 20ms);
    for (int i = 0; i < 30; ++i)
        rule.decode_took(180ms);
    CHECK(rule.stretch() > 179ms);
    CHECK(rule.stretch() <= 180ms);
    PauseRule fixed(0ms);
    fixed.decode_took(180ms);
    CHECK(fixed.stretch() == 0ms);
}

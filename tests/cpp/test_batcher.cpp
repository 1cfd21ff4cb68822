// The rendezvous' promises, one case each, with a clock the test controls: when a group closes, who is in
// it, and that nobody is stranded when a runner or a row goes away. test_batcher_attendance.cpp has who is
// waited for; test_batcher_stress.cpp uses real time.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <mutex>
#include <set>
#include <string>

#include "rendezvous.h"

using namespace muser;
using namespace muser::test;
using namespace std::chrono_literals;

namespace {

std::exception_ptr device_error(const std::string &text) {
    return std::make_exception_ptr(Error(ErrorCode::device, text, {{"cause", text}}));
}

} // namespace

TEST_CASE("a single slot never waits") {
    Rendezvous r;
    for (int i = 0; i < 20; ++i)
        r.batcher.decode(7, 107, {}); // the clock stands still: any window would hang
    const BatcherStats stats = r.batcher.stats();
    CHECK(stats.rendezvous_waits == 0);
    CHECK(stats.groups_by_width[0] == 20);
    CHECK(r.batcher.expected() == 1);
}

TEST_CASE("the window closes early when everyone expected has arrived") {
    Rendezvous r;
    r.enter({1, 2, 3});
    Caller &b = r.add(2), &c = r.add(3);
    give_it_a_chance();
    CHECK(r.groups.empty());
    r.advance(70us);
    Caller &a = r.add(1);
    for (Caller *caller : {&a, &b, &c}) {
        CHECK(caller->wait());
        CHECK(caller->ok());
    }
    CHECK(r.groups == std::vector<Ids>{{1, 2, 3}});
    const BatcherStats stats = r.batcher.stats();
    CHECK(stats.rendezvous_waits == r.base.rendezvous_waits + 1);
    CHECK(stats.rendezvous_full == r.base.rendezvous_full + 1);
    CHECK(stats.rendezvous_expired == r.base.rendezvous_expired);
    CHECK(stats.rendezvous_wait_ns == r.base.rendezvous_wait_ns + 70'000);
    CHECK(stats.groups_by_width[2] == r.base.groups_by_width[2] + 1);
}

TEST_CASE("the window closes after 250 microseconds and not before") {
    Rendezvous r;
    r.enter({1, 2});
    Caller &b = r.add(2);
    r.advance(kRendezvousWindow - 1ns);
    give_it_a_chance();
    CHECK_FALSE(b.done());
    CHECK(r.groups.empty());
    r.advance(1ns);
    CHECK(b.wait());
    CHECK(b.ok());
    CHECK(r.groups == std::vector<Ids>{{2}});
    const BatcherStats stats = r.batcher.stats();
    CHECK(stats.rendezvous_expired == r.base.rendezvous_expired + 1);
    CHECK(stats.rendezvous_wait_ns == r.base.rendezvous_wait_ns + 250'000);
}

TEST_CASE("four rows are a full group: nobody waits for a fifth") {
    Rendezvous r;
    r.enter({1, 2, 3, 4, 5});
    std::vector<Caller *> callers;
    for (SequenceId id : {5, 2, 4, 1})
        callers.push_back(&r.add(id));
    for (Caller *caller : callers)
        CHECK(caller->wait()); // the clock stands still
    CHECK(r.groups.size() == 1);
    CHECK(r.groups[0].size() == 4);
}

TEST_CASE("five candidates leave one queued, which elects the next runner") {
    Rendezvous r;
    r.hold();
    Caller &first = r.add(2); // runs alone, and the turn order stands at 2
    REQUIRE(r.running(0));
    std::vector<Caller *> five;
    for (SequenceId id : {6, 4, 9, 1, 3})
        five.push_back(&r.add(id));
    CHECK(r.batcher.stats().queued == 5);
    r.let_go();
    CHECK(first.wait());
    for (SequenceId id : {3, 4, 6, 9}) { // ascending after 2; 1 comes last
        CAPTURE(id);
        for (size_t i = 0; i < 5; ++i)
            if (Ids{6, 4, 9, 1, 3}[i] == id)
                CHECK(five[i]->wait());
    }
    Caller &left = *five[3];
    give_it_a_chance();
    CHECK_FALSE(left.done()); // the runner now: it waits for the others, who are all expected
    CHECK(r.batcher.stats().queued == 1);
    r.advance(kRendezvousWindow);
    CHECK(left.wait());
    CHECK(left.ok());
    CHECK(r.groups == std::vector<Ids>{{2}, {3, 4, 6, 9}, {1}});
}

TEST_CASE("one row fails and the others succeed") {
    Rendezvous r;
    r.enter({1, 2, 3});
    r.outcome = [](std::span<const Row> rows) {
        Outcomes outcomes;
        for (size_t i = 0; i < rows.size(); ++i)
            if (rows[i].sequence == 2)
                outcomes[i] = device_error("row 2");
        return outcomes;
    };
    Caller &a = r.add(1), &c = r.add(3), &b = r.add(2);
    for (Caller *caller : {&a, &b, &c})
        CHECK(caller->wait());
    CHECK(a.ok());
    CHECK(c.ok());
    CHECK(b.code() == ErrorCode::device);
    CHECK(b.error().message() == "row 2");
    CHECK(r.batcher.expected() == 2); // a failed row has left the decode phase
}

TEST_CASE("when the pass throws, every row of the group gets that error, and the next pass is unharmed") {
    Rendezvous r;
    r.enter({1, 2, 3});
    r.outcome = [](std::span<const Row>) -> Outcomes { std::rethrow_exception(device_error("lost")); };
    Caller &a = r.add(1), &b = r.add(2), &c = r.add(3);
    for (Caller *caller : {&a, &b, &c}) {
        CHECK(caller->wait());
        CHECK(caller->code() == ErrorCode::device);
        CHECK(caller->error().fields() == std::vector<Error::Field>{{"cause", std::string("lost")}});
    }
    CHECK(r.batcher.expected() == 0);
    r.outcome = [](std::span<const Row>) -> Outcomes { throw std::runtime_error("not one of ours"); };
    CHECK_THROWS_WITH(r.batcher.decode(1, 101, {}), "not one of ours");
    r.outcome = succeed;
    r.batcher.decode(1, 101, {});
}

TEST_CASE("rows that share one error object each get their own") {
    Rendezvous r;
    r.enter({1, 2});
    r.outcome = [](std::span<const Row>) {
        Outcomes outcomes;
        outcomes.fill(device_error("shared"));
        return outcomes;
    };
    std::mutex mutex;
    std::set<const Error *> objects;
    std::atomic<int> caught{0};
    const auto decode = [&](SequenceId id) {
        try {
            r.batcher.decode(id, 100 + id, {});
        } catch (const Error &error) {
            {
                std::lock_guard lock(mutex);
                objects.insert(&error);
            }
            ++caught;
            eventually([&] { return caught == 2; }); // both alive at once
        }
    };
    {
        Caller a([&] { decode(1); }), b([&] { decode(2); });
    }
    CHECK(objects.size() == 2);
}

TEST_CASE("a runner cancelled while it collects hands over, and the window goes on where it was") {
    Rendezvous r;
    r.enter({1, 2, 3});
    std::atomic<bool> cancelled{false};
    Caller &runner = r.add(2, {{}, &cancelled, {}});
    r.advance(100us);
    Caller &other = r.add(3);
    cancelled = true;
    CHECK(runner.wait());
    CHECK(runner.code() == ErrorCode::cancelled);
    CHECK(r.batcher.expected() == 2);
    r.advance(149us);
    give_it_a_chance();
    CHECK_FALSE(other.done());
    r.advance(1us); // 250 since the first runner opened it
    CHECK(other.wait());
    CHECK(other.ok());
    CHECK(r.groups == std::vector<Ids>{{3}});
    CHECK(r.batcher.stats().rendezvous_waits == r.base.rendezvous_waits + 1);
}

TEST_CASE("a runner out of time, or interrupted by the host, hands over too") {
    for (bool by_poll : {false, true}) {
        CAPTURE(by_poll);
        Rendezvous r;
        r.enter({1, 2, 3});
        Wait wait;
        if (by_poll)
            wait.poll = [&] {
                CHECK(r.batcher.stats().queued >= 1); // would deadlock if the lock were held
                throw std::runtime_error("interrupted");
            };
        else
            wait.deadline = Clock::now() + 10ms;
        Caller &runner = r.add(2, wait), &other = r.add(3);
        CHECK(runner.wait());
        if (by_poll)
            CHECK(runner.other() == "interrupted");
        else
            CHECK(runner.code() == ErrorCode::timeout);
        CHECK_FALSE(other.done());
        Caller &a = r.add(1);
        CHECK(a.wait());
        CHECK(other.wait());
        CHECK(r.groups == std::vector<Ids>{{1, 3}});
    }
}

TEST_CASE("a queued row that is cancelled or out of time is withdrawn and does not run") {
    Rendezvous r;
    r.hold();
    Caller &first = r.add(1);
    REQUIRE(r.running(0));
    std::atomic<bool> cancelled{false};
    Caller &a = r.add(2, {{}, &cancelled, {}}), &b = r.add(3, {Clock::now() + 20ms, nullptr, {}}), &c = r.add(4);
    cancelled = true;
    CHECK(a.wait());
    CHECK(b.wait());
    CHECK(a.code() == ErrorCode::cancelled);
    CHECK(b.code() == ErrorCode::timeout);
    CHECK(r.batcher.stats().queued == 1);
    CHECK(r.batcher.expected() == 2);
    r.let_go();
    CHECK(first.wait());
    r.advance(kRendezvousWindow);
    REQUIRE(eventually([&] {
        r.advance(kRendezvousWindow);
        return c.done();
    }));
    CHECK(r.groups == std::vector<Ids>{{1}, {4}});
}

TEST_CASE("a row is not taken while its owner polls, and runs later if poll lets it") {
    for (bool interrupted : {false, true}) {
        CAPTURE(interrupted);
        Rendezvous r;
        r.hold();
        Caller &first = r.add(1);
        REQUIRE(r.running(0));
        std::atomic<bool> in_poll{false}, poll_may_end{false};
        Caller &polling = r.add(2, {{}, nullptr, [&] {
                                        in_poll = true;
                                        eventually([&] { return poll_may_end.load(); });
                                        if (interrupted)
                                            throw std::runtime_error("interrupted");
                                    }});
        REQUIRE(eventually([&] { return in_poll.load(); }));
        Caller &other = r.add(3);
        r.let_go();
        CHECK(first.wait());
        REQUIRE(eventually([&] {
            r.advance(kRendezvousWindow);
            return other.done();
        }));
        CHECK(r.groups == std::vector<Ids>{{1}, {3}});
        poll_may_end = true;
        REQUIRE(eventually([&] {
            r.advance(kRendezvousWindow);
            return polling.done();
        }));
        CHECK(polling.other() == (interrupted ? "interrupted" : ""));
        CHECK(r.groups.size() == (interrupted ? 2u : 3u));
    }
}

TEST_CASE("once taken, a row runs to the end whatever its deadline") {
    Rendezvous r;
    r.hold();
    std::atomic<bool> cancelled{false};
    Caller &a = r.add(1); // the runner
    REQUIRE(r.running(0));
    const auto deadline = Clock::now() + 1s;
    Caller &b = r.add(2, {deadline, &cancelled, {}}), &c = r.add(3);
    r.let_go();
    CHECK(a.wait());
    r.hold();
    REQUIRE(eventually([&] {
        r.advance(kRendezvousWindow);
        return r.batcher.stats().queued == 0;
    }));
    REQUIRE(r.running(1));
    cancelled = true;
    std::this_thread::sleep_until(deadline + 50ms);
    CHECK_FALSE(b.done());
    r.let_go();
    CHECK(b.wait());
    CHECK(c.wait());
    CHECK(b.ok());
    CHECK(r.groups == std::vector<Ids>{{1}, {2, 3}});
}

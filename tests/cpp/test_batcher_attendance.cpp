// Who the rendezvous waits for, and in which order rows are taken: leaving, missing windows, coming back,
// refused calls. The clock is the test's.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <mutex>
#include <set>
#include <string>

#include "rendezvous.h"

using namespace muser;
using namespace muser::test;
using namespace std::chrono_literals;

TEST_CASE("leave() closes a rendezvous that waited for nobody else") {
    Rendezvous r;
    r.enter({1, 2, 3});
    Caller &b = r.add(2);
    r.batcher.leave(1);
    give_it_a_chance();
    CHECK_FALSE(b.done()); // 3 is still expected
    r.batcher.leave(3);
    CHECK(b.wait()); // the clock stands still
    CHECK(b.ok());
    CHECK(r.batcher.expected() == 1);
    CHECK(r.batcher.stats().rendezvous_full == r.base.rendezvous_full + 1);
    r.batcher.leave(99); // unknown: nothing happens
    CHECK(r.batcher.expected() == 1);
}

TEST_CASE("the withdrawal of the last one awaited closes the rendezvous") {
    Rendezvous r;
    r.hold();
    Caller &a = r.add(1);
    REQUIRE(r.running(0));
    std::atomic<bool> cancelled{false}, in_poll{false}, poll_may_end{false};
    Caller &b = r.add(2, {{}, &cancelled, [&] {
                              in_poll = true;
                              eventually([&] { return poll_may_end.load(); });
                          }});
    REQUIRE(eventually([&] { return in_poll.load(); }));
    r.batcher.leave(1);
    Caller &c = r.add(3); // waits for 2, which is away
    r.let_go();
    CHECK(a.wait());
    give_it_a_chance();
    CHECK_FALSE(c.done());
    cancelled = true;
    poll_may_end = true;
    CHECK(b.wait());
    CHECK(c.wait()); // the clock stands still
    CHECK(c.ok());
}

TEST_CASE("a slot that misses 4 windows in a row is forgotten until it comes back") {
    Rendezvous r;
    r.enter({1, 2});
    r.batcher.leave(1);
    r.batcher.decode(2, 102, {});
    Caller &one = r.add(1); // 1 has a clean record now, and 2 is awaited
    CHECK(r.batcher.expected() == 2);
    r.batcher.decode(2, 102, {});
    CHECK(one.wait());
    for (int miss = 1; miss <= kMissesUntilForgotten; ++miss) {
        CAPTURE(miss);
        CHECK(r.batcher.expected() == 2);
        Caller &b = r.add(2);
        give_it_a_chance();
        CHECK_FALSE(b.done());
        r.advance(kRendezvousWindow);
        CHECK(b.wait());
    }
    CHECK(r.batcher.expected() == 1);
    r.batcher.decode(2, 102, {}); // no window any more

    Caller &back = r.add(1); // expected again at once
    CHECK(r.batcher.expected() == 2);
    r.batcher.decode(2, 102, {});
    CHECK(back.wait());
    CHECK(r.groups.back() == Ids{1, 2});
}

TEST_CASE("coming back resets the count of missed windows") {
    Rendezvous r;
    r.enter({1, 2});
    for (int round = 0; round < 3; ++round) {
        Caller &together = r.add(1);
        r.batcher.decode(2, 102, {});
        CHECK(together.wait());
        for (int miss = 1; miss < kMissesUntilForgotten; ++miss) {
            Caller &b = r.add(2);
            r.advance(kRendezvousWindow);
            REQUIRE(eventually([&] { return b.done(); }));
        }
        CHECK(r.batcher.expected() == 2);
    }
}

TEST_CASE("a sequence that is queued or running is refused, not hung") {
    Rendezvous r;
    r.hold();
    Caller &running = r.add(1);
    REQUIRE(r.running(0));
    Caller &queued = r.add(2);
    for (SequenceId id : {1, 2}) {
        CAPTURE(id);
        try {
            r.batcher.decode(id, 100 + id, {});
            FAIL("accepted");
        } catch (const Error &error) {
            CHECK(error.code() == ErrorCode::parameter);
            CHECK(error.message().find(std::to_string(id)) != std::string::npos);
        }
    }
    r.let_go();
    CHECK(running.wait());
    REQUIRE(eventually([&] {
        r.advance(kRendezvousWindow);
        return queued.done();
    }));
    CHECK(queued.ok());
    CHECK(r.groups == std::vector<Ids>{{1}, {2}});
}

TEST_CASE("an expired deadline or a set cancellation is refused on the way in; a free device is not polled for") {
    Rendezvous r;
    std::atomic<bool> cancelled{true};
    CHECK_THROWS_AS(r.batcher.decode(1, 101, {Clock::now(), nullptr, {}}), Error);
    CHECK_THROWS_AS(r.batcher.decode(1, 101, {{}, &cancelled, {}}), Error);
    CHECK(r.groups.empty());
    CHECK(r.batcher.expected() == 0);
    r.batcher.decode(1, 101, {{}, nullptr, [] { FAIL("polled"); }});
    CHECK(r.batcher.expected() == 1);
    CHECK_THROWS_AS(r.batcher.decode(1, 101, {{}, &cancelled, {}}), Error);
    CHECK(r.batcher.expected() == 0); // a refused row ends the decode phase like a withdrawn one
}

TEST_CASE("the turn order goes on after the last row of the last group, over any ids") {
    Rendezvous r;
    r.hold();
    Caller &first = r.add(5);
    REQUIRE(r.running(0));
    std::vector<Caller *> callers;
    for (SequenceId id : {4, 2147483547, -103, 6, 0, 2}) // tokens are 100 + id: stay inside int32
        callers.push_back(&r.add(id));
    r.let_go();
    CHECK(first.wait());
    for (Caller *caller : callers)
        REQUIRE(eventually([&] {
            r.advance(kRendezvousWindow);
            return caller->done();
        }));
    CHECK(r.groups == std::vector<Ids>{{5}, {6, 2147483547, -103, 0}, {2, 4}});
}

// What ends a prompt's pass between two steps (session/decoder_pauses.h), with a scheduler alone.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <atomic>

#include "session/decoder_pauses.h"

using namespace muser;

namespace {

// Of a pass that no decoder waits for.
struct Fixture {
    std::atomic<uint64_t> total{0};
    std::atomic<bool> cancelled{false};
    AcceleratorScheduler scheduler;
    AcceleratorScheduler::Permit permit = scheduler.acquire(Work::prefill, 0, {});
    PauseRule rule;
    Wait wait{{}, &cancelled, {}};
    Stopwatch watch{total};
    DecoderPauses pauses{scheduler, permit, rule, wait, watch};
};

void check_given_up(const DecoderPauses &pauses, ErrorCode why) {
    CHECK(pauses.hooks().wanted());
    CHECK_THROWS_AS(pauses.hooks().pause(), Error);
    REQUIRE(pauses.given_up());
    try {
        std::rethrow_exception(pauses.given_up());
    } catch (const Error &error) {
        CHECK(error.code() == why);
    }
}

} // namespace

TEST_CASE("a pass that nobody disturbs goes on") {
    Fixture f;
    CHECK_FALSE(f.pauses.hooks().wanted());
    f.pauses.hooks().pause();
    CHECK_FALSE(f.pauses.given_up());
}

TEST_CASE("a cancelled session's pass is given up at once, though nobody waits") {
    Fixture f;
    f.cancelled = true;
    check_given_up(f.pauses, ErrorCode::cancelled);
}

TEST_CASE("a closed model's pass is given up at once, though nobody waits") {
    Fixture f;
    f.scheduler.close();
    check_given_up(f.pauses, ErrorCode::closed);
}

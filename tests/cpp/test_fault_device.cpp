// The fault device: the chosen commit fails or hangs, the others go through to the wrapped device.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "core/error.h"
#include "device/cpu/cpu_device.h"
#include "device/fault/fault_device.h"

using namespace muser;
using namespace std::chrono_literals;

namespace {

FaultDevice wrapped(FaultPlan plan) { return FaultDevice(make_cpu_device(1), std::move(plan)); }

// An empty pass: '.' when it went through, else the first letter of what it threw.
char commit(FaultDevice &device, Deadline deadline = {}) {
    device.begin({}, PassKind::decode);
    try {
        device.commit_and_wait(deadline);
        return '.';
    } catch (const Error &error) {
        return error.code() == ErrorCode::device ? 'd' : error.code() == ErrorCode::timeout ? 't' : '?';
    }
}

std::string commits(FaultDevice &device, int n) {
    std::string outcome;
    for (int i = 0; i < n; ++i)
        outcome += commit(device);
    return outcome;
}

} // namespace

TEST_CASE("exactly the k-th commit fails, or it and all later ones") {
    auto never = wrapped({});
    CHECK(commits(never, 5) == ".....");
    auto once = wrapped({.commit = 3});
    CHECK(commits(once, 5) == "..d..");
    auto from_then_on = wrapped({.commit = 2, .all_later = true});
    CHECK(commits(from_then_on, 5) == ".dddd");
    from_then_on.arm({.commit = 2}); // counts from now
    CHECK(commits(from_then_on, 4) == ".d..");
    CHECK(from_then_on.commits() == 9);
}

TEST_CASE("a hang lasts until the deadline and is a timeout") {
    auto device = wrapped({.commit = 1, .kind = FaultPlan::Kind::hang});
    const auto start = Clock::now();
    CHECK(commit(device, start + 60ms) == 't');
    CHECK(Clock::now() - start >= 60ms);
    CHECK(commit(device, Clock::now() + 10s) == '.');
}

TEST_CASE("a hang without a deadline ends as a device error") {
    auto device = wrapped({.commit = 1, .kind = FaultPlan::Kind::hang, .longest_hang = 20ms});
    CHECK(commit(device) == 'd');
}

// The rendezvous in real time: threads that decode, pause, fail, time out, get cancelled and leave at random.
// Every row runs exactly once or, if its call says so, not at all; groups follow the turn order.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <vector>

#include "callers.h"
#include "sched/batcher.h"
#include "sched/scheduler.h"

using namespace muser;
using namespace muser::test;
using namespace std::chrono_literals;

using Row = DecodeBatcher::Row;
using Outcomes = std::array<std::exception_ptr, kMaxGroup>;

namespace {


// Rows in the order they ran; plain containers, because passes must not overlap.
struct Device {
    AcceleratorScheduler scheduler;
    std::vector<std::vector<Row>> passes;

    Outcomes run(std::span<const Row> rows) {
        std::vector<SequenceId> ids;
        for (const Row &row : rows)
            ids.push_back(row.sequence);
        auto permit = scheduler.acquire_group(ids, {});
        passes.emplace_back(rows.begin(), rows.end());
        if (passes.size() % 97 == 0)
            throw Error(ErrorCode::device, "the whole pass fails");
        Outcomes outcomes;
        for (size_t i = 0; i < rows.size(); ++i)
            if (rows[i].token % 31 == 0)
                outcomes[i] = std::make_exception_ptr(Error(ErrorCode::device, "this row fails"));
        return outcomes;
    }
};

// Walks the circle one id at a time from the last row: the group's rows must come up in this order.
bool follows_turn_order(const std::vector<Row> &rows, SequenceId last, int circle) {
    size_t found = 0;
    for (int step = 1; step <= circle && found < rows.size(); ++step)
        found += rows[found].sequence == (last + step) % circle;
    return found == rows.size();
}

void stress(int slots, int rows_each, bool with_prefill) {
    Device device;
    DecodeBatcher batcher([&](std::span<const Row> rows) { return device.run(rows); });
    std::vector<std::vector<int>> delivered(static_cast<size_t>(slots)), withdrawn(static_cast<size_t>(slots));
    std::atomic<bool> over{false};
    {
        Caller prefill([&] {
            while (with_prefill && !over) {
                auto permit = device.scheduler.acquire(Work::prefill, 1000, {});
                permit.release();
                std::this_thread::sleep_for(100us);
            }
        });
        std::vector<std::unique_ptr<Caller>> threads;
        for (int slot = 0; slot < slots; ++slot)
            threads.push_back(std::make_unique<Caller>([&, slot] {
                std::mt19937 random(static_cast<uint32_t>(slot));
                const auto chance = [&](unsigned one_in) { return random() % one_in == 0; };
                for (int token = 1; token <= rows_each; ++token) {
                    std::atomic<bool> cancelled{false};
                    std::unique_ptr<Caller> canceller;
                    Wait wait;
                    if (chance(20))
                        wait.deadline = Clock::now() + std::chrono::microseconds(random() % 400);
                    if (chance(50)) {
                        wait.cancelled = &cancelled;
                        canceller = std::make_unique<Caller>([&] { cancelled = true; });
                    }
                    try {
                        batcher.decode(slot, token, wait);
                        delivered[static_cast<size_t>(slot)].push_back(token);
                    } catch (const Error &error) {
                        if (error.code() == ErrorCode::device)
                            delivered[static_cast<size_t>(slot)].push_back(-token);
                        else if (error.code() == ErrorCode::timeout || error.code() == ErrorCode::cancelled)
                            withdrawn[static_cast<size_t>(slot)].push_back(token);
                        else
                            throw;
                    }
                    if (chance(10))
                        batcher.leave(slot);
                    if (chance(8))
                        std::this_thread::sleep_for(std::chrono::microseconds(random() % 600));
                }
                batcher.leave(slot);
            }));
        for (auto &thread : threads) {
            REQUIRE(thread->wait());
            CHECK(thread->ok());
        }
        over = true;
    }
    CHECK(batcher.expected() == 0);
    const BatcherStats stats = batcher.stats();
    CHECK(stats.queued == 0);
    CHECK(stats.rendezvous_full + stats.rendezvous_expired <= stats.rendezvous_waits);

    std::vector<std::vector<int>> ran(static_cast<size_t>(slots));
    std::array<uint64_t, kMaxGroup> widths{};
    SequenceId last = -1;
    for (size_t pass = 0; pass < device.passes.size(); ++pass) {
        const std::vector<Row> &rows = device.passes[pass];
        REQUIRE(rows.size() >= 1);
        REQUIRE(rows.size() <= kMaxGroup);
        REQUIRE(follows_turn_order(rows, last, slots));
        last = rows.back().sequence;
        ++widths[rows.size() - 1];
        for (const Row &row : rows) {
            const bool fails = (pass + 1) % 97 == 0 || row.token % 31 == 0;
            ran[static_cast<size_t>(row.sequence)].push_back(fails ? -row.token : row.token);
        }
    }
    CHECK(ran == delivered); // every row that returned ran once, in order, with its own outcome; no other ran
    CHECK(widths == stats.groups_by_width);
    for (int slot = 0; slot < slots; ++slot)
        CHECK(delivered[static_cast<size_t>(slot)].size() + withdrawn[static_cast<size_t>(slot)].size() ==
              static_cast<size_t>(rows_each));
}

} // namespace

TEST_CASE("every row runs exactly once, or not at all if its call says so") {
    for (int slots : {1, 2, 4, 7}) {
        CAPTURE(slots);
        stress(slots, 400, slots % 2 == 0);
    }
}

TEST_CASE("slots that decode in step share their passes") {
    AcceleratorScheduler scheduler;
    int passes = 0;
    DecodeBatcher batcher(
        [&](std::span<const Row> rows) {
            std::vector<SequenceId> ids;
            for (const Row &row : rows)
                ids.push_back(row.sequence);
            auto permit = scheduler.acquire_group(ids, {});
            ++passes;
            return Outcomes{};
        },
        5s); // nobody is that slow: every group closes because all have arrived
    {
        std::vector<std::unique_ptr<Caller>> threads;
        for (SequenceId slot = 0; slot < 4; ++slot)
            threads.push_back(std::make_unique<Caller>([&, slot] {
                for (int token = 0; token < 300; ++token) {
                    batcher.decode(slot, token, {});
                    if (token == 0) // the first one may be alone; from here on it waits for the others
                        eventually([&] { return batcher.expected() == 4; });
                }
                batcher.leave(slot);
            }));
    }
    CHECK(passes <= 300 + 4); // the first and the last few are narrow
    CHECK(batcher.stats().rendezvous_expired == 0);
}

TEST_CASE("the rendezvous does not live-lock on a single core") {
    const OneCore one;
    if (one.works())
        stress(4, 100, true);
}

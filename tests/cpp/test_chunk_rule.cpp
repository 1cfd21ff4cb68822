// How many prompt rows a prefill pass takes (sched/chunk_rule.h).
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdlib>

#include "sched/chunk_rule.h"

using namespace muser;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

// A device that needs this long for a row, asked until the answer settles.
int settled_rows(ChunkRule &rule, std::chrono::nanoseconds row_time) {
    for (int i = 0; i < 20; ++i) {
        const int rows = rule.rows(true);
        rule.measured(rows, rows * row_time);
    }
    return rule.rows(true);
}

} // namespace

TEST_CASE("nobody decodes: the most rows, whatever was measured") {
    ChunkRule rule;
    CHECK(rule.rows(false) == kMostChunkRows);
    rule.measured(64, milliseconds(5000));
    CHECK(rule.rows(false) == kMostChunkRows);
}

TEST_CASE("somebody decodes and nothing is known: the fewest rows") { CHECK(ChunkRule().rows(true) == kLeastChunkRows); }

TEST_CASE("a chunk takes the busy time on any device, within 64..512 rows and in whole steps") {
    for (const auto row_time : {microseconds(1), microseconds(80), microseconds(100), microseconds(333), microseconds(625),
                                microseconds(5000)}) {
        ChunkRule rule;
        const int rows = settled_rows(rule, row_time);
        CAPTURE(row_time.count());
        CHECK(rows >= kLeastChunkRows);
        CHECK(rows <= kMostChunkRows);
        CHECK(rows % kChunkStep == 0);
        if (rows > kLeastChunkRows)
            CHECK(rows * row_time <= kBusyChunkTime);
        if (rows < kMostChunkRows)
            CHECK((rows + kChunkStep) * row_time > kBusyChunkTime);
    }
}

TEST_CASE("a device that becomes slower gets shorter chunks, one that becomes faster longer ones") {
    ChunkRule rule;
    const int fast = settled_rows(rule, microseconds(100));
    const int slow = settled_rows(rule, microseconds(400));
    CHECK(slow < fast);
    CHECK(std::abs(settled_rows(rule, microseconds(100)) - fast) <= kChunkStep);
}

TEST_CASE("the tail of a prompt, a few rows that read all weights, does not count") {
    ChunkRule rule;
    const int before = settled_rows(rule, microseconds(200));
    rule.measured(3, milliseconds(30));
    CHECK(rule.rows(true) == before);
}

TEST_CASE("a device that draws the display: no chunk takes longer than it asks, though nobody decodes") {
    for (const auto row_time : {microseconds(100), microseconds(1000), microseconds(50000)}) {
        ChunkRule rule(milliseconds(200));
        CHECK(rule.rows(false) == kLeastChunkRows); // nothing measured yet
        for (int i = 0; i < 20; ++i) {
            const int rows = rule.rows(false);
            rule.measured(rows, rows * row_time);
        }
        const int rows = rule.rows(false);
        CHECK(rows % kChunkStep == 0);
        CHECK((rows == kLeastChunkRows || rows * row_time <= milliseconds(200)));
        CHECK((rows == kMostChunkRows || (rows + kChunkStep) * row_time > milliseconds(200)));
        CHECK(rule.rows(true) <= rows);
    }
}

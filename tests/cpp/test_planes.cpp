// The rewind limit against a ring that is really written: exactly the positions that still have their keys.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <random>

#include "kv/planes.h"

using namespace muser;

namespace {

HParams with_windows(std::vector<uint32_t> windows) {
    HParams h;
    h.n_kv_heads = 1;
    h.head_dim = 16;
    for (uint32_t window : windows)
        h.layers.push_back({window, 0});
    return h;
}

// A ring as plain data: which position each row holds.
struct Ring {
    std::vector<int64_t> held;
    void write(uint32_t position) { held[position % held.size()] = position; }
    // Whether a row at `position` finds every earlier key of its window.
    bool serves(uint32_t position, uint32_t window) const {
        for (int64_t key = std::max<int64_t>(0, int64_t{position} - window + 1); key < position; ++key)
            if (held[static_cast<size_t>(key) % held.size()] != key)
                return false;
        return true;
    }
};

} // namespace

TEST_CASE("full layers grow, sliding layers ring, and short contexts need no ring") {
    const HParams h = with_windows({256, 0, 5000});
    const auto planes = plane_specs(h, 4000, KvType::f16);
    CHECK(planes[0].ring);
    CHECK(planes[0].rows >= 256 + kRingMargin);
    CHECK(planes[0].rows % 64 == 0);
    CHECK_FALSE(planes[1].ring);
    CHECK(planes[1].rows >= 4000);
    CHECK_FALSE(planes[2].ring);
    for (const PlaneSpec &plane : plane_specs(h, 300, KvType::f16))
        CHECK_FALSE(plane.ring);
}

TEST_CASE("a model without windows rewinds anywhere") {
    const HParams h = with_windows({0});
    RewindLimit limit(h, plane_specs(h, 100000, KvType::f16));
    limit.wrote(99999);
    CHECK(limit.lowest() == 0);
}

TEST_CASE("the rewind limit is exact over random writes and rewinds") {
    std::mt19937 random(7);
    for (int round = 0; round < 30; ++round) {
        const uint32_t window = 1 + random() % 300;
        const HParams h = with_windows({window, 0});
        const auto planes = plane_specs(h, 100000, KvType::f16);
        REQUIRE(planes[0].ring);
        RewindLimit limit(h, planes);
        Ring ring{std::vector<int64_t>(planes[0].rows, -1)};
        uint32_t position = 0;
        for (int step = 0; step < 40; ++step) {
            if (random() % 3 == 0 && position > limit.lowest()) {
                position = limit.lowest() + random() % (position - limit.lowest() + 1);
            } else {
                const uint32_t n = 1 + random() % kRingMargin;
                limit.wrote(position + n);
                // A device stores the keys of the whole chunk before any of its rows attends.
                for (uint32_t i = 0; i < n; ++i)
                    ring.write(position + i);
                for (uint32_t i = 0; i < n; ++i)
                    REQUIRE(ring.serves(position + i, window));
                position += n;
            }
            const uint32_t lowest = limit.lowest();
            if (lowest > 0) {
                REQUIRE(ring.serves(lowest, window));
                REQUIRE_FALSE(ring.serves(lowest - 1, window));
            }
        }
    }
}

TEST_CASE("a whole chunk can be taken back") {
    const HParams h = with_windows({2048});
    RewindLimit limit(h, plane_specs(h, 100000, KvType::f16));
    limit.wrote(50000);
    CHECK(50000 - limit.lowest() >= kRingMargin);
}

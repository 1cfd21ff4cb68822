// The random numbers of one stochastic feature of one slot: MT19937, seeded and read exactly as Python's
// random.Random, so that anybody can rebuild a run. Stream k of a seed is Random(seed + (k << 64)).
// Streams in use: 0, the draw from the distribution.
#pragma once

#include <cstdint>
#include <random>

namespace muser {

class RandomStream {
  public:
    explicit RandomStream(uint64_t seed, uint32_t stream = 0);

    // 53 random bits, two outputs of the generator: int(Random.random() * 2**53).
    uint64_t next53() {
        const uint64_t high = engine_() >> 5;
        const uint64_t low = engine_() >> 6;
        return (high << 26) | low;
    }

  private:
    std::mt19937 engine_;
};

} // namespace muser

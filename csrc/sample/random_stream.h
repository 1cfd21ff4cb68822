// The random numbers of one stochastic feature of one slot: MT19937, seeded and read exactly as Python's
// random.Random, so that anybody can rebuild a run. Stream k of a seed is Random(seed + (k << 64)).
// Every feature that is on takes exactly one number a token, whatever it does with it.
#pragma once

#include <array>
#include <cstdint>

namespace muser {

enum class Stream : uint32_t { distribution = 0, xtc = 1, mirostat = 2, adaptive = 3 };

class RandomStream {
  public:
    static constexpr uint32_t kWords = 624;
    // The generator as random.Random.getstate()[1] shows it: the words, then the index of the next one.
    struct State {
        std::array<uint32_t, kWords> words;
        uint32_t next; // 0..624
    };

    RandomStream(uint64_t seed, Stream stream);

    // 53 random bits, two outputs of the generator: int(Random.random() * 2**53).
    uint64_t next53() {
        const uint64_t high = next32() >> 5;
        const uint64_t low = next32() >> 6;
        return (high << 26) | low;
    }

    // floor(u * total / 2^53) for the next u: a number below total.
    uint64_t below(uint64_t total);

    const State &state() const noexcept { return state_; }
    void restore(const State &state) { state_ = state; } // next <= 624 is the caller's duty

  private:
    uint32_t next32();
    void refill();

    State state_;
};

} // namespace muser

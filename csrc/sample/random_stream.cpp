// Seeding by array, as published with MT19937 (Matsumoto and Nishimura, 2002) and used by Python: the key
// is the seed's 32-bit digits, least significant first, without leading zeros.
#include "sample/random_stream.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace muser {

namespace {

constexpr size_t kStateWords = std::mt19937::state_size; // 624

// A seed sequence in the standard library's sense: it fills the generator's whole state.
struct KeySeed {
    using result_type = uint32_t;

    std::array<uint32_t, 3> key;
    uint32_t key_words;

    template <typename Iterator>
    void generate(Iterator begin, Iterator end) const {
        std::array<uint32_t, kStateWords> state;
        state[0] = 19650218u;
        for (uint32_t i = 1; i < kStateWords; ++i)
            state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + i;

        size_t i = 1;
        auto advance = [&] {
            if (++i == kStateWords) {
                state[0] = state[kStateWords - 1];
                i = 1;
            }
        };
        auto mixed = [&](uint32_t factor) {
            return state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * factor);
        };
        uint32_t word = 0;
        for (size_t round = 0; round < kStateWords; ++round) {
            state[i] = mixed(1664525u) + key[word] + word;
            word = (word + 1) % key_words;
            advance();
        }
        for (size_t round = 0; round + 1 < kStateWords; ++round) {
            state[i] = mixed(1566083941u) - static_cast<uint32_t>(i);
            advance();
        }
        state[0] = 0x80000000u;
        std::copy_n(state.begin(), end - begin, begin);
    }
};

std::mt19937 seeded(uint64_t seed, uint32_t stream) {
    KeySeed sequence{{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), stream}, 3};
    while (sequence.key_words > 1 && sequence.key[sequence.key_words - 1] == 0)
        --sequence.key_words;
    return std::mt19937(sequence);
}

} // namespace

RandomStream::RandomStream(uint64_t seed, uint32_t stream) : engine_(seeded(seed, stream)) {}

} // namespace muser

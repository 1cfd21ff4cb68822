// MT19937 as published (Matsumoto and Nishimura, 1998; seeding by array, 2002) and used by Python: the key is the
// seed's 32-bit digits, least significant first, without leading zeros. Written out because a saved state must be
// the same bytes with every standard library.
#include "sample/random_stream.h"

namespace muser {

RandomStream::RandomStream(uint64_t seed, Stream stream) {
    const std::array<uint32_t, 3> key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                                      static_cast<uint32_t>(stream)};
    uint32_t key_words = 3;
    while (key_words > 1 && key[key_words - 1] == 0)
        --key_words;

    auto &words = state_.words;
    words[0] = 19650218u;
    for (uint32_t i = 1; i < kWords; ++i)
        words[i] = 1812433253u * (words[i - 1] ^ (words[i - 1] >> 30)) + i;

    uint32_t i = 1;
    auto mixed = [&](uint32_t factor) { return words[i] ^ ((words[i - 1] ^ (words[i - 1] >> 30)) * factor); };
    auto advance = [&] {
        if (++i == kWords) {
            words[0] = words[kWords - 1];
            i = 1;
        }
    };
    uint32_t digit = 0;
    for (uint32_t round = 0; round < kWords; ++round) {
        words[i] = mixed(1664525u) + key[digit] + digit;
        digit = (digit + 1) % key_words;
        advance();
    }
    for (uint32_t round = 0; round + 1 < kWords; ++round) {
        words[i] = mixed(1566083941u) - i;
        advance();
    }
    words[0] = 0x80000000u;
    state_.next = kWords;
}

uint64_t RandomStream::below(uint64_t total) {
    __extension__ using Wide = unsigned __int128; // total has up to 51 bits
    return static_cast<uint64_t>((static_cast<Wide>(next53()) * total) >> 53);
}

uint32_t RandomStream::next32() {
    if (state_.next >= kWords)
        refill();
    uint32_t y = state_.words[state_.next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

void RandomStream::refill() {
    auto &words = state_.words;
    for (uint32_t i = 0; i < kWords; ++i) {
        const uint32_t y = (words[i] & 0x80000000u) | (words[(i + 1) % kWords] & 0x7fffffffu);
        words[i] = words[(i + 397) % kWords] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908b0dfu : 0u);
    }
    state_.next = 0;
}

} // namespace muser

#include "text/keyed_hash.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace muser::text {

namespace {

__extension__ typedef unsigned __int128 Wide;

// Both halves of the product folded together: every bit of the result depends on every bit of both factors.
uint64_t mix(uint64_t a, uint64_t b) {
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

struct Key {
    uint64_t start, word, end;
    Key() {
        std::random_device random;
        for (uint64_t *part : {&start, &word, &end})
            *part = (uint64_t{random()} << 32 | random()) | 1;
    }
};

const Key &key() {
    static const Key key;
    return key;
}

} // namespace

uint64_t keyed_hash(std::string_view text) {
    const auto [start, multiplier, end] = key();
    uint64_t hash = start ^ text.size();
    while (!text.empty()) {
        uint64_t word = 0;
        const size_t n = std::min(text.size(), sizeof word);
        std::memcpy(&word, text.data(), n);
        hash = mix(hash ^ word, multiplier);
        text.remove_prefix(n);
    }
    return mix(hash, end);
}

uint64_t keyed_hash(uint64_t value) { return mix(mix(value ^ key().start, key().word), key().end); }

} // namespace muser::text

#include "text/keyed_hash.h"

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

template <class Word> uint64_t word_at(const char *p) {
    Word word;
    std::memcpy(&word, p, sizeof word);
    return word;
}

// At most 8 bytes as a number, by loads of fixed sizes, which overlap: different texts of one length give different ones.
uint64_t short_text(const char *p, size_t n) {
    if (n >= 4)
        return word_at<uint32_t>(p) | word_at<uint32_t>(p + n - 4) << 32;
    if (n >= 2)
        return word_at<uint16_t>(p) | word_at<uint16_t>(p + n - 2) << 16;
    return n ? word_at<uint8_t>(p) : 0;
}

} // namespace

uint64_t keyed_hash(std::string_view text) {
    const auto [start, multiplier, end] = key();
    uint64_t hash = start ^ text.size();
    const char *p = text.data();
    if (text.size() <= sizeof(uint64_t))
        return mix(mix(hash ^ short_text(p, text.size()), multiplier), end);
    const char *const last = p + text.size() - sizeof(uint64_t); // may overlap the word before
    for (; p < last; p += sizeof(uint64_t))
        hash = mix(hash ^ word_at<uint64_t>(p), multiplier);
    return mix(mix(hash ^ word_at<uint64_t>(last), multiplier), end);
}

uint64_t keyed_hash(uint64_t value) { return mix(mix(value ^ key().start, key().word), key().end); }

} // namespace muser::text

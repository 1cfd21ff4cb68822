// Characters of well-formed UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muser::text {

// Bytes of the character that begins with `lead`.
inline size_t character_bytes(char lead) {
    const auto byte = static_cast<uint8_t>(lead);
    return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

inline bool is_lead(char byte) { return (static_cast<uint8_t>(byte) & 0xc0) != 0x80; }

// The character that ends at `end` > 0.
inline std::string_view character_before(std::string_view text, size_t end) {
    size_t start = end - 1;
    while (start > 0 && !is_lead(text[start]))
        --start;
    return text.substr(start, end - start);
}

inline size_t count_characters(std::string_view text) {
    size_t n = 0;
    for (const char byte : text)
        n += is_lead(byte);
    return n;
}

} // namespace muser::text

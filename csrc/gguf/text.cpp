// UTF-8 decoding by the table of well-formed sequences (Unicode standard, table 3-7).
#include "gguf/text.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace muser::gguf {

namespace {

constexpr size_t kMaxQuoted = 80;

// Length of the well-formed sequence at the start of bytes; 0 when there is none.
size_t sequence_length(std::string_view bytes) {
    const auto at = [&](size_t i) { return i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : uint8_t{0}; };
    const auto tail = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
    const uint8_t lead = at(0), second = at(1);
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2)
        return 0;
    if (lead < 0xe0)
        return tail(1) ? 2 : 0;
    if (lead < 0xf0) {
        const bool overlong = lead == 0xe0 && second < 0xa0;
        const bool surrogate = lead == 0xed && second > 0x9f;
        return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
    }
    if (lead < 0xf5) {
        const bool overlong = lead == 0xf0 && second < 0x90;
        const bool beyond = lead == 0xf4 && second > 0x8f;
        return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
    }
    return 0;
}

// C0, DEL, or (two bytes in UTF-8) C1.
bool is_control(std::string_view sequence) {
    const auto lead = static_cast<uint8_t>(sequence[0]);
    if (sequence.size() == 2)
        return lead == 0xc2 && static_cast<uint8_t>(sequence[1]) < 0xa0;
    return lead < 0x20 || lead == 0x7f;
}

} // namespace

bool is_utf8(std::string_view bytes) {
    constexpr uint64_t kNotAscii = 0x8080808080808080u;
    while (!bytes.empty()) {
        uint64_t word = kNotAscii;
        if (bytes.size() >= sizeof word)
            std::memcpy(&word, bytes.data(), sizeof word);
        // The file format is little-endian, and so is whatever reads it here: the first byte is the lowest.
        const auto ascii = static_cast<size_t>(std::countr_zero(word & kNotAscii)) / 8; // 8 of an ASCII word
        bytes.remove_prefix(ascii);
        if (ascii == sizeof word)
            continue;
        const size_t length = sequence_length(bytes);
        if (length == 0)
            return false;
        bytes.remove_prefix(length);
    }
    return true;
}

std::string quoted(std::string_view bytes) {
    static constexpr char kHex[] = "0123456789abcdef";
    std::string text = "'";
    size_t i = 0;
    while (i < bytes.size() && i < kMaxQuoted) {
        const size_t length = sequence_length(bytes.substr(i));
        const std::string_view sequence = bytes.substr(i, length == 0 ? 1 : length);
        i += sequence.size();
        if (length != 0 && !is_control(sequence)) {
            text.append(sequence);
            continue;
        }
        for (const char c : sequence) {
            text.append("\\x").push_back(kHex[static_cast<uint8_t>(c) >> 4]);
            text.push_back(kHex[static_cast<uint8_t>(c) & 15]);
        }
    }
    if (i < bytes.size())
        text.append("...");
    text.push_back('\'');
    return text;
}

} // namespace muser::gguf

// The words and halves of one packed unit of one row, made from the file's blocks with 32-bit word
// operations (four bytes at a time). pack.cpp then interleaves the lanes.
#pragma once

#include <cstdint>
#include <cstring>

#include "device/cpu/matmul/format.h"

namespace muser::cpu {

inline uint32_t load_u32(const uint8_t *p) {
    uint32_t value;
    std::memcpy(&value, p, sizeof value);
    return value;
}

inline uint16_t load_u16(const uint8_t *p) {
    uint16_t value;
    std::memcpy(&value, p, sizeof value);
    return value;
}

// Swaps the fields of `mask << shift` in low with the fields of `mask` in high: one step of a bit-matrix
// transposition.
inline void swap_fields(uint32_t &low, uint32_t &high, int shift, uint32_t mask) {
    const uint32_t difference = ((low >> shift) ^ high) & mask;
    high ^= difference;
    low ^= difference << shift;
}

// In every byte position: field f of word w becomes field w of word f (2-bit fields of 4 words).
inline void transpose_pairs(uint32_t (&w)[4]) {
    for (int i = 0; i < 2; ++i)
        swap_fields(w[i], w[i + 2], 4, 0x0f0f0f0fu);
    for (int i = 0; i < 4; i += 2)
        swap_fields(w[i], w[i + 1], 2, 0x33333333u);
}

// The same for single bits of 8 words.
inline void transpose_bits(uint32_t (&w)[8]) {
    for (int i = 0; i < 4; ++i)
        swap_fields(w[i], w[i + 4], 4, 0x0f0f0f0fu);
    for (int i = 0; i < 8; i += 4)
        for (int j = i; j < i + 2; ++j)
            swap_fields(w[j], w[j + 2], 2, 0x33333333u);
    for (int i = 0; i < 8; i += 2)
        swap_fields(w[i], w[i + 1], 1, 0x55555555u);
}

// Bit 4g + i of a 32-bit field (bit k belongs to value k) to byte i, bit g.
inline uint32_t spread_bits(uint32_t field) {
    uint32_t out = 0;
    for (int i = 0; i < 4; ++i) { // the bits i, i + 4, ... lie four apart: squeeze them into one byte
        uint32_t x = field >> i & 0x11111111u;
        x = (x | x >> 3) & 0x03030303u;
        x = (x | x >> 6) & 0x000f000fu;
        out |= ((x | x >> 12) & 0xffu) << (8 * i);
    }
    return out;
}

// 32 bytes whose low nibbles are one block and whose high nibbles are another, value by value, to two
// nibble planes.
inline void split_nibbles(const uint8_t *src, uint32_t *low_block, uint32_t *high_block) {
    for (int j = 0; j < 4; ++j) {
        const uint32_t a = load_u32(src + 4 * j), b = load_u32(src + 16 + 4 * j);
        low_block[j] = (a & 0x0f0f0f0fu) | (b & 0x0f0f0f0fu) << 4;
        high_block[j] = (a >> 4 & 0x0f0f0f0fu) | (b & 0xf0f0f0f0u);
    }
}

// 32 bytes of four 2-bit fields, field s being the pairs of block s, to word 0 and 1 of those 4 blocks.
inline void split_pairs(const uint8_t *src, uint32_t *words, int block_words) {
    for (int half = 0; half < 2; ++half) {
        uint32_t w[4];
        for (int f = 0; f < 4; ++f)
            w[f] = load_u32(src + 16 * half + 4 * f);
        transpose_pairs(w);
        for (int s = 0; s < 4; ++s)
            words[s * block_words + half] = w[s];
    }
}

// 32 bytes whose bit s belongs to block s, to the bit word of 8 blocks.
inline void split_bits(const uint8_t *src, uint32_t *words, int block_words) {
    uint32_t w[8];
    for (int g = 0; g < 8; ++g)
        w[g] = load_u32(src + 4 * g);
    transpose_bits(w);
    for (int s = 0; s < 8; ++s)
        words[s * block_words] = w[s];
}

// The 12 bytes of 6-bit scales and mins of Q4_K and Q5_K to (scale | min << 8) of 8 blocks.
inline void split_scale_mins(const uint8_t *src, uint16_t *halves) {
    for (int j = 0; j < 4; ++j) {
        halves[j] = static_cast<uint16_t>((src[j] & 63) | (src[j + 4] & 63) << 8);
        const int scale = (src[j + 8] & 15) | src[j] >> 6 << 4;
        const int min = src[j + 8] >> 4 | src[j + 4] >> 6 << 4;
        halves[j + 4] = static_cast<uint16_t>(scale | min << 8);
    }
}

// The 12 bytes of sixteen 6-bit scales of Q3_K, less 32, to int8 pairs.
inline void split_q3_scales(const uint8_t *src, uint16_t *halves) {
    const uint32_t a = load_u32(src), b = load_u32(src + 4), high = load_u32(src + 8);
    uint32_t w[4];
    w[0] = (a & 0x0f0f0f0fu) | (high & 0x03030303u) << 4;
    w[1] = (b & 0x0f0f0f0fu) | (high >> 2 & 0x03030303u) << 4;
    w[2] = (a >> 4 & 0x0f0f0f0fu) | (high >> 4 & 0x03030303u) << 4;
    w[3] = (b >> 4 & 0x0f0f0f0fu) | (high >> 6 & 0x03030303u) << 4;
    for (uint32_t &x : w) // bytes 0..63 less 32: add 0xe0 without carries between bytes
        x = (x + 0x60606060u) ^ 0x80808080u;
    std::memcpy(halves, w, sizeof w);
}

// One file block of a 32-value type.
template <BlockType type> void unpack_file_block(const uint8_t *src, uint32_t *words, uint16_t *halves) {
    constexpr PackedFormat format = packed_format(type);
    halves[0] = load_u16(src);
    src += 2;
    if constexpr (format.store == ScaleStore::block_dm) {
        halves[1] = load_u16(src);
        src += 2;
    }
    if constexpr (format.bits) {
        words[4] = spread_bits(load_u32(src));
        src += 4;
    }
    std::memcpy(words, src, format.bytes ? 32 : 16);
}

// One file super-block of a 256-value type.
template <BlockType type> void unpack_file_super(const uint8_t *src, uint32_t *words, uint16_t *halves) {
    constexpr int step = packed_format(type).words();
    if constexpr (type == BlockType::Q4_K || type == BlockType::Q5_K) {
        std::memcpy(halves, src, 4);
        split_scale_mins(src + 4, halves + 2);
        if constexpr (type == BlockType::Q5_K)
            split_bits(src + 16, words + 4, step);
        const uint8_t *nibbles = src + (type == BlockType::Q5_K ? 48 : 16);
        for (int c = 0; c < 4; ++c)
            split_nibbles(nibbles + 32 * c, words + 2 * c * step, words + (2 * c + 1) * step);
    } else if constexpr (type == BlockType::Q6_K) {
        for (int half = 0; half < 2; ++half) {
            uint32_t *w = words + 4 * half * step;
            split_nibbles(src + 64 * half, w, w + 2 * step);
            split_nibbles(src + 64 * half + 32, w + step, w + 3 * step);
            split_pairs(src + 128 + 32 * half, w + 4, step);
        }
        halves[0] = load_u16(src + 208);
        std::memcpy(halves + 1, src + 192, 16);
    } else if constexpr (type == BlockType::Q3_K) {
        split_bits(src, words + 2, step);
        for (int half = 0; half < 2; ++half)
            split_pairs(src + 32 + 32 * half, words + 4 * half * step, step);
        halves[0] = load_u16(src + 108);
        split_q3_scales(src + 96, halves + 1);
    } else if constexpr (type == BlockType::Q2_K) {
        for (int half = 0; half < 2; ++half)
            split_pairs(src + 16 + 32 * half, words + 4 * half * step, step);
        std::memcpy(halves, src + 80, 4);
        std::memcpy(halves + 2, src, 16);
    } else {
        static_assert(type == BlockType::IQ4_XS);
        halves[0] = load_u16(src);
        const uint32_t high = load_u16(src + 2);
        for (int p = 0; p < 4; ++p) { // two blocks
            const int low = src[4 + p];
            const int a = ((low & 15) | (high >> (4 * p) & 3) << 4) - 32;
            const int b = (low >> 4 | (high >> (4 * p + 2) & 3) << 4) - 32;
            halves[1 + p] = static_cast<uint16_t>((a & 0xff) | (b & 0xff) << 8);
        }
        std::memcpy(words, src + 8, 128);
    }
}

} // namespace muser::cpu

// How the kernels read a weight row. Sixteen consecutive values are a run; a unit is what a lane reads at once: one run,
// or the two (kSecond runs apart) whose fields share the same bytes. 32 units are a tile, kTileBytes in the file.
//
//     struct T {
//         enum { kRuns, kSecond, kTileBytes, kScaled, kLow };
//         struct Raw { ... };                                  // a unit's bytes, in registers
//         static void load(tile, odd, unit, whole, raw);
//         static void scales(raw, unit, scale, low);           // of the unit's first and second run
//         static float4 quarter(raw, unit, part, k, halves);   // values 4 k .. of run `part`: 0 or 1
//     };
//
// `unit` is 0..31; `odd` is 2 where the row begins in the middle of a word, else 0. load() is apart from the rest so
// that the loads of several units are in flight before one is used. `whole`, which the compiler knows, says that the
// SIMD-group loads a whole tile, each lane the unit of its number. A quarter is four whole numbers below 2048 (or, where
// kScaled is 0, the values themselves): value = scale * number - low; low is used only where kLow is 1. `halves` is
// kHalves, see whole4().
#pragma once

#include "common.h"

METAL_FUNC float half_at(device const uchar *p) { return float(*(device const half *)p); }
METAL_FUNC uint ushort_at(device const uchar *p) { return *(device const ushort *)p; }
METAL_FUNC float low_half(uint word) { return float(as_type<half2>(word).x); }
METAL_FUNC float high_half(uint word) { return float(as_type<half2>(word).y); }

// 16 bytes at a multiple of 16, and of 4.
METAL_FUNC uint4 aligned_bytes16(device const uchar *p) { return *(device const uint4 *)p; }
METAL_FUNC uint4 bytes16(device const uchar *p) { return *(device const packed_uint4 *)p; }

METAL_FUNC uint word_of(uint4 words, ushort k) { return k == 0 ? words.x : k == 1 ? words.y : k == 2 ? words.z : words.w; }

// 16 bytes at a multiple of 2: loaded as the words they lie in, for which half as many loads are needed as for shorts,
// and put together when they are used.
struct SplitBytes {
    uint4 words;
    uint end; // the last two bytes, where the first word begins two bytes early
    bool split;
};
METAL_FUNC void load_split_words(device const uchar *p, bool split, thread SplitBytes &bytes) { // all but `end`
    bytes.words = bytes16(split ? p - 2 : p);
    bytes.end = 0;
    bytes.split = split;
}
METAL_FUNC void load_split(device const uchar *p, bool split, thread SplitBytes &bytes) {
    load_split_words(p, split, bytes);
    bytes.end = ushort_at(split ? p + 14 : p);
}
METAL_FUNC uint split_word(thread const SplitBytes &bytes, ushort k) {
    const uint low = word_of(bytes.words, k), high = k == 3 ? bytes.end : word_of(bytes.words, k + 1);
    return bytes.split ? low >> 16 | high << 16 : low;
}

// A half at a multiple of 2 and the 16 bytes after it, as the five words they lie in. The half is the lower part of the
// first (`split`) or the upper. Where it is the lower, the last word ends two bytes behind the block, and behind the matrix
// where the block is its last. That cannot be in a `whole` tile: a row that ends with one has a number of blocks that is
// even and begins at a word, so that its last block begins in the middle of one.
struct HeadedBytes {
    uint4 words;
    uint last;
    bool split;
};
METAL_FUNC void load_headed(device const uchar *head, bool split, bool whole, thread HeadedBytes &bytes) {
    device const uchar *p = split ? head : head - 2;
    bytes.words = bytes16(p);
    bytes.last = whole || !split ? *(device const uint *)(p + 16) : ushort_at(p + 16);
    bytes.split = split;
}
METAL_FUNC float head_of(thread const HeadedBytes &bytes) {
    return low_half(bytes.split ? bytes.words.x : bytes.words.x >> 16);
}
METAL_FUNC uint headed_word(thread const HeadedBytes &bytes, ushort k) {
    const uint first = word_of(bytes.words, k), next = k == 3 ? bytes.last : word_of(bytes.words, k + 1);
    return bytes.split ? first >> 16 | next << 16 : next;
}

// 0x6400 | b is the half 1024 + b: one operation makes two numbers of two fields, where conversions of integers run at a
// fraction of the speed. matvec takes it from its arguments and hands it down: to mask bits and to set bits is one
// operation on NVIDIA's GPUs where one of the two constants is in a register, and two where the compiler knows both.
constant uint kHalves = 0x64006400u;

// 1024 + each of the four fields of a word, one a byte; `mask` selects one in bytes 0 and 2.
METAL_FUNC float4 above1024(uint word, uint mask, uint halves) {
    const half2 even = as_type<half2>((word & mask) ^ halves);
    const half2 odd = as_type<half2>((word >> 8 & mask) ^ halves);
    return float4(float(even.x), float(odd.x), float(even.y), float(odd.y));
}
// The four fields, each less `offset`. Exact: every number is below 2048.
METAL_FUNC float4 whole4(uint word, uint mask, half offset, uint halves) {
    const half2 even = as_type<half2>((word & mask) ^ halves) - half2(offset + 1024.0h);
    const half2 odd = as_type<half2>((word >> 8 & mask) ^ halves) - half2(offset + 1024.0h);
    return float4(float(even.x), float(odd.x), float(even.y), float(odd.y));
}
// The same for fields that begin at bit `shift` of their bytes, without shifting them: also exact.
METAL_FUNC float4 whole4_at(uint word, uint shift, uint mask, half offset, uint halves) {
    const half unit = as_type<half>(ushort((15 - shift) << 10)); // 2^-shift
    const half2 zero = half2(-1024.0h * unit - offset);
    const half2 even = as_type<half2>((word & (mask << shift)) ^ halves) * half2(unit) + zero;
    const half2 odd = as_type<half2>((word >> 8 & (mask << shift)) ^ halves) * half2(unit) + zero;
    return float4(float(even.x), float(odd.x), float(even.y), float(odd.y));
}
// Nibbles: the low ones are whole; the high ones stay where they are, and are 16 (64 + nibble): scale16() goes with them.
METAL_FUNC float4 nibbles4(uint word, ushort part, uint halves) {
    return part == 0 ? whole4(word, 0x000f000fu, 0.0h, halves) : above1024(word, 0x00f000f0u, halves);
}
METAL_FUNC void scale16(thread float2 &scale, thread float2 &low) {
    low.y = fma(scale.y, 64.0f, low.y);
    scale.y *= 0.0625f;
}
// High nibbles with a fifth bit, also in place, and also to be scaled by scale16(): 16 (64 + number). Bits 8 and 24 of `even` are
// the fifth bits of bytes 0 and 2, those of `odd` of bytes 1 and 3.
METAL_FUNC float4 high_five_bits4(uint word, uint even, uint odd, uint halves) {
    const half2 e = as_type<half2>((word & 0x00f000f0u) | ((even & 0x01000100u) ^ halves));
    const half2 o = as_type<half2>((word >> 8 & 0x00f000f0u) | ((odd & 0x01000100u) ^ halves));
    return float4(float(e.x), float(o.x), float(e.y), float(o.y));
}
// Each byte's bit or bits from `from` up, moved to `to`; the other bits are to be masked.
METAL_FUNC uint moved(uint word, uint from, uint to) { return rotate(word, (to - from) & 31u); }

// Bits 0..3 of `bits` to bit `to` of bytes 0..3 of a word.
METAL_FUNC uint spread_bits(uint bits, uint to) { return ((bits & 15u) * 0x00204081u & 0x01010101u) << to; }

// The levels of IQ4_NL and IQ4_XS; part of the format.
constant float kIq4Levels[16] = {-127.0f, -104.0f, -83.0f, -65.0f, -49.0f, -35.0f, -22.0f, -10.0f,
                                 1.0f,    13.0f,   25.0f,  38.0f,  53.0f,  69.0f,  89.0f,  113.0f};
METAL_FUNC float4 levels4(uint word, uint shift) {
    const uint w = word >> shift;
    return float4(kIq4Levels[w & 15u], kIq4Levels[w >> 8 & 15u], kIq4Levels[w >> 16 & 15u], kIq4Levels[w >> 24 & 15u]);
}

// The first run of a unit of a tile.
template <typename W>
METAL_FUNC uint first_run(uint unit) {
    return W::kRuns == 1 ? unit : unit / W::kSecond * (2 * W::kSecond) + unit % W::kSecond;
}

// Run i of a row.
template <typename W>
METAL_FUNC void unpack(device const uchar *row, uint odd, uint i, thread float4 *values, thread float &scale, thread float &low) {
    const uint in_tile = i % (32 * W::kRuns);
    const ushort unit = W::kRuns == 1 ? in_tile : in_tile / (2 * W::kSecond) * W::kSecond + in_tile % W::kSecond;
    const ushort part = W::kRuns == 1 ? 0 : in_tile / W::kSecond % 2;
    typename W::Raw raw;
    W::load(row + ulong(i / (32 * W::kRuns)) * W::kTileBytes, odd, unit, false, raw);
    float2 scales = float2(1.0f);
    float2 lows = float2(0.0f);
    W::scales(raw, unit, scales, lows);
    scale = part == 0 ? scales.x : scales.y;
    low = part == 0 ? lows.x : lows.y;
    UNROLLED for (short k = 0; k < 4; ++k)
        values[k] = W::quarter(raw, unit, part, k, kHalves);
}
METAL_FUNC uint odd_row(uint row, uint row_bytes) { return row * row_bytes & 2u; }

// One function a quantized type: expands n_blocks blocks. Private to csrc/gguf; dequant.cpp dispatches.
//
// Every formula is written with the operations and in the order of the `gguf` Python package
// (gguf.quants), separate multiplications and additions in float32, so that results are equal bit for bit (no
// type is an exception; only the payload of a NaN scale may differ).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gguf/dequant.h"

namespace muser::gguf {

// Blocks of 32 values (dequant_32.cpp).
void dequantize_q4_0(const uint8_t *block, float *dst, size_t n_blocks);
void dequantize_q4_1(const uint8_t *block, float *dst, size_t n_blocks);
void dequantize_q5_0(const uint8_t *block, float *dst, size_t n_blocks);
void dequantize_q5_1(const uint8_t *block, float *dst, size_t n_blocks);
void dequantize_q8_0(const uint8_t *block, float *dst, size_t n_blocks);
void dequantize_iq4_nl(const uint8_t *block, float *dst, size_t n_blocks);

// Super-blocks of 256 values (dequant_256.cpp).
void dequantize_q2_k(const uint8_t *block, float *dst, size_t n_blocks);
void dequantize_q3_k(const uint8_t *block, float *dst, size_t n_blocks);
void dequantize_q4_k(const uint8_t *block, float *dst, size_t n_blocks);
void dequantize_q5_k(const uint8_t *block, float *dst, size_t n_blocks);
void dequantize_q6_k(const uint8_t *block, float *dst, size_t n_blocks);
void dequantize_iq4_xs(const uint8_t *block, float *dst, size_t n_blocks);

// The 16 non-uniform levels of IQ4_NL and IQ4_XS; part of the format.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// Blocks are byte-aligned in the file, so wider fields are copied out, never cast.
inline uint16_t read_u16(const uint8_t *p) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return bits;
}

inline uint32_t read_u32(const uint8_t *p) {
    uint32_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return bits;
}

inline float read_half(const uint8_t *p) { return half_to_float(read_u16(p)); }

} // namespace muser::gguf

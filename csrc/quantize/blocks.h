// One function a type: fills n_blocks blocks from float32 values, all finite and of at most kLargestHalf.
// Private to csrc/quantize; blocks.cpp dispatches. Layouts are those of csrc/gguf/dequant_*.cpp.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gguf/dequant.h"
#include "quantize/half.h"

namespace muser::quantize {

// Blocks of 32 values (blocks_32.cpp).
void quantize_q4_0(const float *x, uint8_t *block, size_t n_blocks);
void quantize_q4_1(const float *x, uint8_t *block, size_t n_blocks);
void quantize_q5_0(const float *x, uint8_t *block, size_t n_blocks);
void quantize_q5_1(const float *x, uint8_t *block, size_t n_blocks);
void quantize_q8_0(const float *x, uint8_t *block, size_t n_blocks);

// Super-blocks of 256 values (blocks_256.cpp).
void quantize_q2_k(const float *x, uint8_t *block, size_t n_blocks);
void quantize_q3_k(const float *x, uint8_t *block, size_t n_blocks);
void quantize_q4_k(const float *x, uint8_t *block, size_t n_blocks);
void quantize_q5_k(const float *x, uint8_t *block, size_t n_blocks);
void quantize_q6_k(const float *x, uint8_t *block, size_t n_blocks);

inline void put_half(uint8_t *to, uint16_t bits) { std::memcpy(to, &bits, sizeof bits); }

// For the unit of small integers: in the coarse range below the normal halves (where Q6_K's units usually lie) rounded
// up, so that the largest integer still reaches the largest scale.
inline uint16_t reaching_half(float value) {
    const uint16_t bits = bounded_half(value);
    const bool coarse = (bits & 0x7fffu) < 0x400u;
    return static_cast<uint16_t>(coarse && std::fabs(gguf::half_to_float(bits)) < std::fabs(value) ? bits + 1 : bits);
}

// The value as a reader of the file will see it.
inline float as_half(float value) { return gguf::half_to_float(bounded_half(value)); }

} // namespace muser::quantize

// One function a type: fills n_blocks blocks from float32 values, all finite and of at most kLargestHalf.
// Private to csrc/quantize; blocks.cpp dispatches. Layouts are those of csrc/gguf/dequant_*.cpp.
#pragma once

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
void quantize_iq4_nl(const float *x, uint8_t *block, size_t n_blocks); // blocks_iq4.cpp

// Super-blocks of 256 values (blocks_256.cpp).
void quantize_q2_k(const float *x, uint8_t *block, size_t n_blocks);
void quantize_q3_k(const float *x, uint8_t *block, size_t n_blocks);
void quantize_q4_k(const float *x, uint8_t *block, size_t n_blocks);
void quantize_q5_k(const float *x, uint8_t *block, size_t n_blocks);
void quantize_q6_k(const float *x, uint8_t *block, size_t n_blocks);

inline void put_half(uint8_t *to, uint16_t bits) { std::memcpy(to, &bits, sizeof bits); }

// The value as a reader of the file will see it.
inline float as_half(float value) { return gguf::half_to_float(bounded_half(value)); }

} // namespace muser::quantize

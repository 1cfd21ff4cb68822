// Slow, readable dequantizers: one plain loop a type, the oracle for every fast kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gguf/block_type.h"

namespace muser::gguf {

// Writes n_values float32 values from as many blocks. n_values is a multiple of the block's elements
// and src holds exactly the blocks; both are checked by the caller (the reader's shape checks).
void dequantize(BlockType type, const std::byte *src, float *dst, size_t n_values);

float half_to_float(uint16_t bits);
float bfloat16_to_float(uint16_t bits);

} // namespace muser::gguf

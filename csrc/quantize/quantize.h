// The quantizers: float32 values to the blocks of a type, with the scale search of docs/quantize.md.
#pragma once

#include <cstddef>
#include <span>

#include "gguf/block_type.h"

namespace muser::quantize {

// Whether blocks of this type can be made: all that csrc/gguf reads but IQ4_NL and IQ4_XS.
bool can_make(gguf::BlockType type);

// Fills dst with the blocks of n_values values, a multiple of the block's elements. The same values give the same
// bytes on every machine.
void quantize(gguf::BlockType type, const float *src, std::byte *dst, size_t n_values);

// The first value that the type cannot hold (not finite; above the largest half for all but F32 and BF16), else n_values.
size_t first_unfit(gguf::BlockType type, const float *values, size_t n_values);

} // namespace muser::quantize

// The best logit of every block of 64: one pass over a row, after which each step of the sampler visits only the
// blocks that can matter, so that a vocabulary of 262,144 costs about as much as reading it once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

namespace muser {

inline constexpr size_t kBlock = 64;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline std::span<const float> block_of(std::span<const float> row, size_t b) {
    return row.subspan(b * kBlock, std::min(kBlock, row.size() - b * kBlock));
}

// NaN if the block holds one.
float best_of_block(std::span<const float> block);

} // namespace muser

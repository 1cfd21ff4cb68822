// The tensor element types of GGUF that muser reads, and the size of their blocks.
// Numbers are GGUF's own (ggml type ids).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace muser::gguf {

enum class BlockType : uint32_t {
    F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8,
    Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14,
    IQ4_NL = 20, IQ4_XS = 23, BF16 = 30,
};

struct BlockTraits {
    std::string_view name;
    uint32_t elements; // values in one block
    uint32_t bytes;    // size of one block
};

// Empty for every type id that muser does not read.
std::optional<BlockTraits> traits_of(uint32_t type_id);
const BlockTraits &traits(BlockType type);
std::optional<BlockType> type_named(std::string_view name); // "Q4_K"

} // namespace muser::gguf

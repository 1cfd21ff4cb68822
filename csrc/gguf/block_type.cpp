// The one table of tensor element types: GGUF id, name, values in a block, bytes of a block.
#include "gguf/block_type.h"

#include <array>
#include <utility>

#include "core/error.h"

namespace muser::gguf {

namespace {

constexpr std::array<std::pair<BlockType, BlockTraits>, 15> kTable{{
    {BlockType::F32, {"F32", 1, 4}},
    {BlockType::F16, {"F16", 1, 2}},
    {BlockType::BF16, {"BF16", 1, 2}},
    {BlockType::Q4_0, {"Q4_0", 32, 2 + 16}},
    {BlockType::Q4_1, {"Q4_1", 32, 2 + 2 + 16}},
    {BlockType::Q5_0, {"Q5_0", 32, 2 + 4 + 16}},
    {BlockType::Q5_1, {"Q5_1", 32, 2 + 2 + 4 + 16}},
    {BlockType::Q8_0, {"Q8_0", 32, 2 + 32}},
    {BlockType::IQ4_NL, {"IQ4_NL", 32, 2 + 16}},
    {BlockType::Q2_K, {"Q2_K", 256, 16 + 64 + 2 + 2}},
    {BlockType::Q3_K, {"Q3_K", 256, 32 + 64 + 12 + 2}},
    {BlockType::Q4_K, {"Q4_K", 256, 2 + 2 + 12 + 128}},
    {BlockType::Q5_K, {"Q5_K", 256, 2 + 2 + 12 + 32 + 128}},
    {BlockType::Q6_K, {"Q6_K", 256, 128 + 64 + 16 + 2}},
    {BlockType::IQ4_XS, {"IQ4_XS", 256, 2 + 2 + 4 + 128}},
}};

const BlockTraits *lookup(uint32_t type_id) {
    for (const auto &[type, traits] : kTable)
        if (static_cast<uint32_t>(type) == type_id)
            return &traits;
    return nullptr;
}

} // namespace

std::optional<BlockTraits> traits_of(uint32_t type_id) {
    const BlockTraits *found = lookup(type_id);
    return found ? std::optional(*found) : std::nullopt;
}

const BlockTraits &traits(BlockType type) {
    if (const BlockTraits *found = lookup(static_cast<uint32_t>(type)))
        return *found;
    throw Error(ErrorCode::internal, "no traits for block type " + std::to_string(static_cast<uint32_t>(type)));
}

std::optional<BlockType> type_named(std::string_view name) {
    for (const auto &[type, traits] : kTable)
        if (traits.name == name)
            return type;
    return std::nullopt;
}

} // namespace muser::gguf

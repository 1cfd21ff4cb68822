// What stands before the tensors of a GGUF file: metadata of another model, with some keys set, and a table of tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gguf/file.h"

namespace muser::quantize {

struct Planned {
    const gguf::Tensor *source;
    gguf::BlockType type;

    uint64_t values() const { return source->cols() * source->rows(); }
    uint64_t bytes() const { return values() / gguf::traits(type).elements * gguf::traits(type).bytes; }
};

// The bytes up to the first tensor. Metadata is the model's own, in its order and with its types; general.file_type
// and general.quantization_version are set, and what only a split model has (split.*) is left out.
std::vector<std::byte> header_of(const gguf::Model &model, std::span<const Planned> tensors, uint32_t file_type);

inline uint64_t padded(uint64_t size, uint64_t alignment) { return (size + alignment - 1) / alignment * alignment; }

} // namespace muser::quantize

// One parsed GGUF file: a whole model, or one part of a split one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gguf/file.h"

namespace muser::gguf {

struct Part {
    uint32_t version = 0;
    uint32_t alignment = 0;
    std::vector<Entry> metadata;
    std::vector<Tensor> tensors;
};

// Parses bytes, which all views in the result point into. path is for messages; file (may be null) is
// stored in the tensors.
Part parse_part(std::span<const std::byte> bytes, const std::string &path, const MappedFile *file);

} // namespace muser::gguf

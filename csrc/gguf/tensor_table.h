// Parses the tensor table of one GGUF file and places every tensor in the file's data section.
#pragma once

#include <cstdint>
#include <vector>

#include "gguf/cursor.h"
#include "gguf/file.h"

namespace muser::gguf {

// Reads `count` records at the cursor, then checks the whole: names are unique non-empty UTF-8, every
// tensor is aligned, inside `bytes` and apart from all others. `file` is stored in the records.
std::vector<Tensor> read_tensors(Cursor &cursor, uint64_t count, uint32_t alignment, std::span<const std::byte> bytes,
                                 const MappedFile *file);

} // namespace muser::gguf

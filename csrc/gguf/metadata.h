// Parses the key/value section of one GGUF file.
#pragma once

#include <cstdint>
#include <vector>

#include "gguf/cursor.h"
#include "gguf/file.h"

namespace muser::gguf {

// Arrays of arrays exist in the format, deep ones in no file; the bound keeps recursion off the stack's end.
inline constexpr int kMaxArrayDepth = 8;

// Reads `count` entries at the cursor. Keys are non-empty UTF-8 and unique.
std::vector<Entry> read_metadata(Cursor &cursor, uint64_t count);

} // namespace muser::gguf

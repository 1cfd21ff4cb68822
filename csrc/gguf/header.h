// The fixed 24 bytes at the front of a GGUF file, and what to say when they are something else.
#pragma once

#include <cstdint>

#include "gguf/cursor.h"

namespace muser::gguf {

struct Header {
    uint32_t version;
    uint64_t n_tensors;
    uint64_t n_entries;
};

// "GGUF", u32 version, u64 tensors, u64 metadata entries.
Header read_header(Cursor &cursor);

} // namespace muser::gguf

// One 32-value block of one lane, decoded from a packed unit into plain integers and scales: the readable
// meaning of the packed formats. The portable kernels and unpack_row are built on it, and the vector
// levels are tested against it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cpu/matmul/format.h"

namespace muser::cpu {

struct LaneBlock {
    int8_t q[32];  // zero point subtracted
    float d;       // as format.h's table
    float m[2];    // scale_min uses m[0]
    int c[2];      // halves and halves_min
};

// unit: the packed unit; block: index within it.
LaneBlock decode_lane_block(const PackedFormat &format, const std::byte *unit, int lanes, int lane, int block);

} // namespace muser::cpu

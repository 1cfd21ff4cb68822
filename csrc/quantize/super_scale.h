// A super-block of 256 values in groups of 16, each x ~ (d * scale) * q: scale is a small signed integer of the group,
// d a half of the super-block. The same steps as in super_line.h.
#pragma once

#include <cstdint>

#include "quantize/blocks.h"
#include "quantize/fit_scale.h"

namespace muser::quantize {

struct SuperScale {
    static constexpr int kGroup = 16, kGroups = 256 / kGroup;
    uint16_t d = 0;              // half
    int8_t scale[kGroups] = {};
    int8_t q[256] = {};

    float scale_of(int integer) const { return gguf::half_to_float(d) * static_cast<float>(integer); }
};

// half: q in -half..half-1; scale_half: scale in -scale_half..scale_half-1.
SuperScale fit_super_scale(const float *x, int half, int scale_half);

} // namespace muser::quantize

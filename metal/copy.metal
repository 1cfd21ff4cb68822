// Residual rows to where the host reads them (taps).
#include "common.h"

kernel void copy_rows(constant CopyArgs &args [[buffer(0)]], device const float *from [[buffer(1)]],
                      device float *to [[buffer(2)]], uint2 position [[thread_position_in_grid]]) {
    if (position.x < args.cols)
        to[ulong(position.y) * args.cols + position.x] = from[ulong(position.y) * args.stride + position.x];
}

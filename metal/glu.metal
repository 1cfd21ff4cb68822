// activation(gate) * up, where the products before it could not do it themselves: prefill, and weights of two types.
#include "product.h"

kernel void glu(constant GluArgs &args [[buffer(0)]], device const float *gate [[buffer(1)]],
                device const float *up [[buffer(2)]], device float *out [[buffer(3)]],
                uint2 position [[thread_position_in_grid]]) {
    const uint i = position.x;
    if (i >= args.cols)
        return;
    const ulong row = ulong(position.y) * args.stride;
    out[row + (args.in_lane_order ? lane_order(i) : i)] = activate(args.gelu, gate[row + i]) * up[row + i];
}

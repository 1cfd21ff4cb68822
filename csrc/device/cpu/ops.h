// The kernels of the CPU device other than matrix products: one table of function pointers a level.
// All levels give the same bits; ops_<level>.cpp compiles the shared sources with that level's flags.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cpu/attention.h"
#include "device/cpu/level.h"
#include "device/cpu/plane.h"

namespace muser::cpu {

struct OpKernels {
    Level level;

    void (*exp)(const float *x, float *out, size_t n);
    void (*sigmoid)(const float *x, float *out, size_t n);
    void (*tanh)(const float *x, float *out, size_t n);

    // out = x / sqrt(mean(x^2) + eps) * weight; weight may be null, out may be x.
    void (*rms_norm)(const float *x, const float *weight, float eps, float *out, size_t n);
    void (*add_rms_norm)(float *x, const float *y, const float *weight, float eps, size_t n); // x += rms_norm(y)
    void (*add)(float *x, const float *y, size_t n);                                          // x += y
    void (*scale)(float *x, float factor, size_t n);                                          // x *= factor
    void (*gate)(float *x, const float *z, size_t n);                                         // x *= sigmoid(z)
    void (*silu_glu)(float *x, const float *up, size_t n);                                    // x = silu(x) * up
    void (*gelu_tanh_glu)(float *x, const float *up, size_t n);
    void (*softcap)(float *x, float cap, size_t n);                                           // x = cap * tanh(x / cap)
    // Pairs (2k, 2k+1), or (k, k + n_pairs) where halves.
    void (*rope)(float *x, const float *cosine, const float *sine, size_t n_pairs, bool halves);
    void (*rotate)(float *x, size_t head_dim); // what q8_0 does to one head's values (device.h); its own inverse
    void (*store_kv)(const PlaneView &plane, uint32_t position, const float *keys, const float *values);

    // Attention; see attention.h.
    void (*attend_segment)(const SegmentTask &task);
    void (*merge_segment)(SoftmaxState into, SoftmaxState from, size_t width);
    void (*finish_attention)(SoftmaxState state, float *out, size_t head_dim);
};

const OpKernels &op_kernels(Level level);

} // namespace muser::cpu

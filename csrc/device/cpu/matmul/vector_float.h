// The matrix product with float weights of a vector level: acc = fma(w[k], a[k], acc) over ascending k.
// A chain of dependent operations an element, so several tiles or rows are in flight to hide the latency.
#pragma once

#include "device/cpu/matmul/vector_product.h"

namespace muser::cpu {

inline constexpr int kFloatBatch = 48; // rows whose accumulators are kept beside a strip of weights
inline constexpr int kFloatPrefetchBytes = 1024;
inline constexpr uint64_t kFloatStrip = 256; // weight values a lane that stay in first-level cache

template <class V, BlockType type>
MUSER_INLINE typename V::F load_weight(const std::byte *values, uint64_t k) {
    const std::byte *p = values + k * V::lanes * (type == BlockType::F32 ? 4 : 2);
    if constexpr (type == BlockType::F32)
        return V::load_f32(reinterpret_cast<const float *>(p));
    else if constexpr (type == BlockType::F16)
        return V::load_f16(p);
    else
        return V::load_bf16(p);
}

// acc [R][T][lanes] of R rows and T tiles takes in values [first, last).
template <class V, BlockType type, int R, int T>
void float_rows(const std::byte *tile, uint64_t tile_bytes, uint64_t first, uint64_t last, const float *rows,
                size_t stride, float *acc) {
    constexpr int width = V::lanes * (type == BlockType::F32 ? 4 : 2); // bytes of one value of all lanes
    typename V::F sums[R][T];
    for (int r = 0; r < R; ++r)
        for (int t = 0; t < T; ++t)
            sums[r][t] = V::load_f32(acc + (r * T + t) * V::lanes);
    for (uint64_t k = first; k < last; ++k) {
        typename V::F w[T];
        if constexpr (R <= kDirectRows) // memory may be the limit
            for (int t = 0; t < T; ++t)
                for (int i = 0; i < width; i += 64)
                    __builtin_prefetch(tile + t * tile_bytes + k * width + kFloatPrefetchBytes + i);
        for (int t = 0; t < T; ++t)
            w[t] = load_weight<V, type>(tile + t * tile_bytes, k);
        for (int r = 0; r < R; ++r) {
            const typename V::F a = V::broadcast(rows + r * stride + k);
            for (int t = 0; t < T; ++t)
                sums[r][t] = V::fma(w[t], a, sums[r][t]);
        }
    }
    for (int r = 0; r < R; ++r)
        for (int t = 0; t < T; ++t)
            V::store(acc + (r * T + t) * V::lanes, sums[r][t]);
}

// All rows of a call on T tiles from `tile` on.
template <class V, BlockType type, int T>
void float_tiles(const ProductCall &call, uint64_t tile, const float *values, size_t stride) {
    alignas(64) float acc[kFloatBatch * T * V::lanes];
    const uint64_t cols = call.matrix.cols;
    for (int r0 = 0; r0 < call.n; r0 += kFloatBatch) {
        const int batch = call.n - r0 < kFloatBatch ? call.n - r0 : kFloatBatch;
        for (int i = 0; i < batch * T * V::lanes; ++i)
            acc[i] = 0.0f;
        const uint64_t strip = batch <= V::float_rows ? cols : kFloatStrip;
        for (uint64_t first = 0; first < cols; first += strip) {
            const uint64_t last = cols - first < strip ? cols : first + strip;
            int r = 0;
            const auto step = [&]<int R>() {
                for (; r + R <= batch; r += R)
                    float_rows<V, type, R, T>(call.tile(tile), call.matrix.tile_bytes, first, last,
                                              values + (r0 + r) * stride, stride, acc + r * T * V::lanes);
            };
            if constexpr (T == 1) {
                step.template operator()<V::float_rows>();
                step.template operator()<4>();
                step.template operator()<3>();
            }
            step.template operator()<2>();
            step.template operator()<1>();
        }
        for (int r = 0; r < batch; ++r)
            for (int t = 0; t < T; ++t)
                call.store<V>(tile + t, r0 + r, acc + (r * T + t) * V::lanes);
    }
}

template <class V, BlockType type>
void float_product(const ProductCall &call, const float *values, size_t stride) {
    uint64_t tile = call.first;
    if (call.n <= 2)
        for (; tile + 2 <= call.last; tile += 2)
            float_tiles<V, type, 2>(call, tile, values, stride);
    for (; tile < call.last; ++tile)
        float_tiles<V, type, 1>(call, tile, values, stride);
}

} // namespace muser::cpu

// The portable level: plain loops over lanes and values that spell out format.h's arithmetic. Slow and
// readable; every other level must give its bits.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/cpu/matmul/activations.h"
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/lane_block.h"
#include "gguf/dequant.h"

namespace muser::cpu {

namespace {

constexpr int kLanes = 16;
constexpr int kRowBatch = 64; // activation rows that share one decoding of a weight block

template <class T> T read(const std::byte *array, size_t index) {
    T value;
    std::memcpy(&value, array + index * sizeof(T), sizeof(T));
    return value;
}

// acc[row][lane] takes in one block of one activation row.
float add_block(Scaling scaling, const LaneBlock &w, const std::byte *row, const RowLayout &layout, size_t b, float acc) {
    int sums[2] = {};
    for (int k = 0; k < 32; ++k)
        sums[k / 16] += w.q[k] * read<int8_t>(row, 32 * b + k);
    const float s = read<float>(row + layout.scale, b);
    const bool halves = scaling == Scaling::halves || scaling == Scaling::halves_min;
    const int t = halves ? w.c[0] * sums[0] + w.c[1] * sums[1] : sums[0] + sums[1];
    acc = std::fma(static_cast<float>(t), w.d * s, acc);
    if (scaling == Scaling::scale_min)
        acc = std::fma(w.m[0], read<float>(row + layout.sum, b), acc);
    if (scaling == Scaling::halves_min)
        for (int h = 0; h < 2; ++h)
            acc = std::fma(w.m[h], read<float>(row + layout.half_sum, 2 * b + h), acc);
    return acc;
}

void quantized_tile(const PackedMatrix &m, const std::byte *tile, const std::byte *rows, int n, float (*acc)[kLanes]) {
    const PackedFormat format = packed_format(m.type);
    const RowLayout layout(m.cols);
    for (size_t b = 0; b < m.cols / 32; ++b) {
        const std::byte *unit = tile + b / format.blocks * format.unit_bytes(kLanes);
        for (int lane = 0; lane < kLanes; ++lane) {
            const LaneBlock w = decode_lane_block(format, unit, kLanes, lane, static_cast<int>(b % format.blocks));
            for (int r = 0; r < n; ++r)
                acc[r][lane] = add_block(format.scaling, w, rows + r * layout.bytes, layout, b, acc[r][lane]);
        }
    }
}

void float_tile(const PackedMatrix &m, const std::byte *tile, const float *rows, size_t stride, int n,
                float (*acc)[kLanes]) {
    for (size_t k = 0; k < m.cols; ++k) {
        for (int lane = 0; lane < kLanes; ++lane) {
            const size_t index = k * kLanes + lane;
            float w;
            if (m.type == BlockType::F32)
                w = read<float>(tile, index);
            else if (m.type == BlockType::F16)
                w = gguf::half_to_float(read<uint16_t>(tile, index));
            else
                w = gguf::bfloat16_to_float(read<uint16_t>(tile, index));
            for (int r = 0; r < n; ++r)
                acc[r][lane] = std::fma(w, rows[r * stride + k], acc[r][lane]);
        }
    }
}

void matmul(const PackedMatrix &m, uint64_t first, uint64_t last, const ActivationRows &in, int n, float *out,
            size_t out_stride, const float *bias) {
    const size_t row_bytes = quantized_row_bytes(m.cols);
    for (int r0 = 0; r0 < n; r0 += kRowBatch) {
        const int batch = std::min(kRowBatch, n - r0);
        for (uint64_t tile = first; tile < last; ++tile) {
            float acc[kRowBatch][kLanes] = {};
            const std::byte *data = m.data + tile * m.tile_bytes;
            if (is_float_type(m.type))
                float_tile(m, data, in.values + r0 * in.stride, in.stride, batch, acc);
            else
                quantized_tile(m, data, in.quants + r0 * row_bytes, batch, acc);
            const uint64_t row = tile * kLanes;
            const uint64_t count = std::min<uint64_t>(kLanes, m.rows - row);
            for (int r = 0; r < batch; ++r)
                for (uint64_t lane = 0; lane < count; ++lane)
                    out[(r0 + r) * out_stride + row + lane] = acc[r][lane] + (bias ? bias[row + lane] : 0.0f);
        }
    }
}

} // namespace

const MatmulKernels portable_matmul{Level::portable, kLanes, quantize_row_portable, matmul};

} // namespace muser::cpu

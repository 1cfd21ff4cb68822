// The portable level: plain loops over lanes and values that spell out format.h's arithmetic. Every other
// level must give its bits.
#include <algorithm>
#include <limits>

#include "device/cpu/exact_fma.h"
#include "device/cpu/matmul/activations.h"
#include "device/cpu/matmul/bounds.h"
#include "device/cpu/matmul/each_type.h"
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/lane_block.h"

namespace muser::cpu {

namespace {

constexpr int kLanes = 16;
constexpr int kRowBatch = 64; // activation rows that share one decoding of a weight block

using Accumulators = float[kRowBatch][kLanes];

// sum + x * y, a lane each.
void add_products(float *sum, const float *x, const float *y) {
    for (int lane = 0; lane < kLanes; ++lane)
        sum[lane] = exact_fma(x[lane], y[lane], sum[lane]);
}

// acc takes in block b of one activation row.
template <Scaling scaling>
void add_block(const LaneBlock *w, const std::byte *row, const RowLayout &layout, size_t b, float *acc) {
    constexpr bool halves = scaling == Scaling::halves || scaling == Scaling::halves_min;
    int8_t a[32];
    std::memcpy(a, row + 32 * b, sizeof a);
    const float s = read_item<float>(row + layout.scale, b);
    float t[kLanes], scale[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
        int sums[2] = {};
        for (int h = 0; h < 2; ++h)
            for (int k = 16 * h; k < 16 * (h + 1); ++k)
                sums[h] += w[lane].q[k] * a[k];
        const int total = halves ? w[lane].c[0] * sums[0] + w[lane].c[1] * sums[1] : sums[0] + sums[1];
        t[lane] = static_cast<float>(total);
        scale[lane] = w[lane].d * s;
    }
    add_products(acc, t, scale);

    constexpr int mins = scaling == Scaling::scale_min ? 1 : scaling == Scaling::halves_min ? 2 : 0;
    for (int h = 0; h < mins; ++h) {
        const float sum = mins == 1 ? read_item<float>(row + layout.sum, b)
                                    : read_item<float>(row + layout.half_sum, 2 * b + h);
        float m[kLanes], sums[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) {
            m[lane] = w[lane].m[h];
            sums[lane] = sum;
        }
        add_products(acc, m, sums);
    }
}

// Tile `index` of matrix m, whose type is `type`.
template <BlockType type>
void quantized_tile(const PackedMatrix &m, uint64_t index, const std::byte *rows, const RowLayout &layout, int n,
                    Accumulators &acc) {
    constexpr PackedFormat format = packed_format(type);
    const std::byte *tile = m.data + index * m.tile_bytes, *low = m.low + index * low_tile_bytes(type, m.cols, kLanes);
    for (size_t b = 0; b < layout.blocks; ++b) {
        const size_t u = b / format.blocks;
        const std::byte *unit = tile + u * format.unit_bytes(kLanes), *low_unit = low + u * format.low_unit_bytes(kLanes);
        LaneBlock w[kLanes];
        for (int lane = 0; lane < kLanes; ++lane)
            w[lane] = decode_lane_block<type>(unit, kLanes, lane, static_cast<int>(b % format.blocks), low_unit);
        for (int r = 0; r < n; ++r)
            add_block<format.scaling>(w, rows + r * layout.bytes, layout, b, acc[r]);
    }
}

float float_weight(BlockType type, const std::byte *tile, size_t index) {
    switch (type) {
    case BlockType::F16: return gguf::half_to_float(read_item<uint16_t>(tile, index));
    case BlockType::BF16: return gguf::bfloat16_to_float(read_item<uint16_t>(tile, index));
    default: return read_item<float>(tile, index);
    }
}

void float_tile(const PackedMatrix &m, const std::byte *tile, const float *rows, size_t stride, int n,
                Accumulators &acc) {
    for (size_t k = 0; k < m.cols; ++k) {
        float w[kLanes];
        for (int lane = 0; lane < kLanes; ++lane)
            w[lane] = float_weight(m.type, tile, k * kLanes + lane);
        for (int r = 0; r < n; ++r) {
            float a[kLanes];
            std::fill_n(a, kLanes, rows[r * stride + k]);
            add_products(acc[r], w, a);
        }
    }
}

void matmul(const PackedMatrix &m, uint64_t first, uint64_t last, const ActivationRows &in, int n, float *out,
            size_t out_stride, const float *bias) {
    const RowLayout layout(m.cols);
    for (int r0 = 0; r0 < n; r0 += kRowBatch) {
        const int batch = std::min(kRowBatch, n - r0);
        for (uint64_t index = first; index < last; ++index) {
            Accumulators acc = {};
            if (is_float_type(m.type))
                float_tile(m, m.data + index * m.tile_bytes, in.values + r0 * in.stride, in.stride, batch, acc);
            else
                with_quantized_type(m.type, [&]<BlockType type>() {
                    quantized_tile<type>(m, index, in.quants + r0 * layout.bytes, layout, batch, acc);
                });
            const uint64_t row = index * kLanes;
            const uint64_t count = std::min<uint64_t>(kLanes, m.rows - row);
            for (int r = 0; r < batch; ++r)
                for (uint64_t lane = 0; lane < count; ++lane)
                    out[(r0 + r) * out_stride + row + lane] =
                        bias ? acc[r][lane] + bias[row + lane] : acc[r][lane];
        }
    }
}

void bounds(const PackedMatrix &matrix, uint64_t first, uint64_t last, const ActivationRows &in, int n, float *out,
            size_t out_stride) {
    const PackedMatrix high = first_plane(matrix);
    const RowLayout layout(matrix.cols);
    for (uint64_t index = first; index < last; ++index) {
        Accumulators acc = {};
        quantized_tile<kHighQ8>(high, index, in.quants, layout, n, acc);
        for (int r = 0; r < n; ++r) {
            const bool known = std::all_of(acc[r], acc[r] + kLanes, [](float x) { return x >= std::numeric_limits<float>::lowest(); });
            out[r * out_stride + index] = known ? *std::max_element(acc[r], acc[r] + kLanes) : std::numeric_limits<float>::infinity();
        }
    }
}

} // namespace

const MatmulKernels portable_matmul{Level::portable, kLanes, quantize_portable, matmul, bounds};

} // namespace muser::cpu

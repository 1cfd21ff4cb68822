// The i8mm level: products of many activation rows on smmla, two rows by two outputs at a time. Few rows are limited by
// memory and stay with NEON, whose packed tiles these are, as do float weights. Integers are exact and every float
// operation is add_block's, in its order, so the bits are those of every other level.
#include "device/cpu/matmul/each_type.h"
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/panel_i8mm.h"
#include "device/cpu/matmul/vector_dispatch.h"

namespace muser::cpu {
namespace {

using Squares = float[I8mm::squares][4]; // the accumulators of two rows and one tile

// One block of two activation rows.
template <Arithmetic a> struct RowPair {
    static constexpr int minima = PanelBlock<I8mm, a>::n_scales - 1;
    int8x16_t values[4]; // 8i .. 8i + 7 of the first row, then of the second
    float32x4_t scale;   // for each element of a square, as the sums
    float32x4_t sums[minima > 0 ? minima : 1];

    template <int R> MUSER_INLINE void load(const RowBlocks<R> &rows, int first, int second) {
        for (int i = 0; i < 2; ++i) {
            const int64x2_t x = vld1q_s64(reinterpret_cast<const int64_t *>(rows.quants(first)) + 2 * i);
            const int64x2_t y = vld1q_s64(reinterpret_cast<const int64_t *>(rows.quants(second)) + 2 * i);
            values[2 * i] = vreinterpretq_s8_s64(vzip1q_s64(x, y));
            values[2 * i + 1] = vreinterpretq_s8_s64(vzip2q_s64(x, y));
        }
        scale = for_both_lanes(rows.scale(first), rows.scale(second));
        if constexpr (a.scaling == Scaling::scale_min)
            sums[0] = for_both_lanes(rows.sum(first), rows.sum(second));
        if constexpr (a.scaling == Scaling::halves_min)
            for (int half = 0; half < 2; ++half)
                sums[half] = for_both_lanes(rows.half_sum(first) + 4 * half, rows.half_sum(second) + 4 * half);
    }
    static MUSER_INLINE float32x4_t for_both_lanes(const std::byte *first, const std::byte *second) {
        return vcombine_f32(vld1_dup_f32(reinterpret_cast<const float *>(first)),
                            vld1_dup_f32(reinterpret_cast<const float *>(second)));
    }
};

// out = the exact integers of one square for every pair: sum of q * a, or c0 * sum0 + c1 * sum1.
template <Arithmetic a, int pairs>
MUSER_INLINE void square_sums(const PanelBlock<I8mm, a> &block, int square, const RowPair<a> (&rows)[pairs],
                              int32x4_t (&out)[pairs]) {
    constexpr int parts = PanelBlock<I8mm, a>::has_factors ? 2 : 1;
    for (int part = 0; part < parts; ++part) {
        int32x4_t sum[pairs];
        for (int p = 0; p < pairs; ++p)
            sum[p] = vdupq_n_s32(0);
        for (int i = 4 / parts * part; i < 4 / parts * (part + 1); ++i) {
            const int8x16_t weights = block.values(square, i);
            for (int p = 0; p < pairs; ++p)
                sum[p] = vmmlaq_s32(sum[p], rows[p].values[i], weights);
        }
        for (int p = 0; p < pairs; ++p) {
            if constexpr (parts == 2)
                out[p] = part == 0 ? vmulq_s32(sum[p], block.factor(square, 0))
                                   : vmlaq_s32(out[p], sum[p], block.factor(square, 1));
            else
                out[p] = sum[p];
        }
    }
}

// acc [(R + 1) / 2] takes in a block. A last odd row is its own partner.
template <Arithmetic a, int R>
MUSER_INLINE void add_squares(const PanelBlock<I8mm, a> &block, const RowBlocks<R> &rows, Squares *acc) {
    constexpr int pairs = (R + 1) / 2, minima = RowPair<a>::minima;
    RowPair<a> pair[pairs];
    for (int p = 0; p < pairs; ++p)
        pair[p].load(rows, 2 * p, 2 * p + 1 < R ? 2 * p + 1 : 2 * p);
    for (int square = 0; square < I8mm::squares; ++square) {
        int32x4_t t[pairs];
        square_sums(block, square, pair, t);
        float32x4_t scales[1 + minima];
        for (int i = 0; i <= minima; ++i)
            scales[i] = block.scale(square, i);
        for (int p = 0; p < pairs; ++p) {
            float *at = acc[p][square];
            float32x4_t x = vfmaq_f32(vld1q_f32(at), vcvtq_f32_s32(t[p]), vmulq_f32(scales[0], pair[p].scale));
            for (int i = 0; i < minima; ++i)
                x = vfmaq_f32(x, scales[1 + i], pair[p].sums[i]);
            vst1q_f32(at, x);
        }
    }
}

// Adds panel blocks [0, count), which are the rows' blocks from first_block on, to the accumulators of R rows.
template <Arithmetic a, int R>
__attribute__((noinline)) void panel_pairs(const PanelBlock<I8mm, a> *panel, int count, const std::byte *rows,
                                           const RowLayout &layout, size_t first_block, Squares *acc) {
    for (int b = 0; b < count; ++b)
        add_squares<a>(panel[b], RowBlocks<R>{rows, layout.bytes, layout, first_block + b}, acc);
}

template <Arithmetic a>
void panel_all_pairs(const PanelBlock<I8mm, a> *panel, int count, const std::byte *rows, int n,
                     const RowLayout &layout, size_t first_block, NextPanel next, Squares *acc) {
    const auto step = [&]<int R>() {
        for (; n >= R; n -= R, rows += R * layout.bytes, acc += R / 2) {
            next.fetch_share();
            panel_pairs<a, R>(panel, count, rows, layout, first_block, acc);
        }
    };
    step.template operator()<I8mm::panel_rows>();
    step.template operator()<4>();
    step.template operator()<2>();
    step.template operator()<1>();
}

// The finished accumulators of rows r and, where there is one, r + 1.
MUSER_INLINE void store_pair(const ProductCall &call, uint64_t tile, int r, const Squares &acc) {
    float rows[2][I8mm::lanes];
    for (int v = 0; v < I8mm::squares; v += 2) {
        const float64x2_t x = vreinterpretq_f64_f32(vld1q_f32(acc[v])), y = vreinterpretq_f64_f32(vld1q_f32(acc[v + 1]));
        vst1q_f32(rows[0] + 2 * v, vreinterpretq_f32_f64(vzip1q_f64(x, y)));
        vst1q_f32(rows[1] + 2 * v, vreinterpretq_f32_f64(vzip2q_f64(x, y)));
    }
    call.store<I8mm>(tile, r, rows[0]);
    if (r + 1 < call.n)
        call.store<I8mm>(tile, r + 1, rows[1]);
}

template <BlockType type> void pair_product(const ProductCall &call) {
    constexpr Arithmetic a = arithmetic_of(type);
    PanelBlock<I8mm, a> panel[I8mm::panel_blocks];
    Squares acc[kRowBatch / 2];
    const int blocks = static_cast<int>(call.layout.blocks), most = batch_rows(call.layout, call.n, I8mm::panel_rows, kRowBatch);
    for (int r0 = 0; r0 < call.n; r0 += most) {
        const int batch = call.n - r0 < most ? call.n - r0 : most;
        const std::byte *rows = call.rows + r0 * call.layout.bytes;
        for (uint64_t tile = call.first; tile < call.last; ++tile) {
            __builtin_memset(acc, 0, sizeof acc[0] * static_cast<size_t>((batch + 1) / 2));
            for (int first = 0; first < blocks; first += I8mm::panel_blocks) {
                const int count = blocks - first < I8mm::panel_blocks ? blocks - first : I8mm::panel_blocks;
                unpack_panel<I8mm, type>(call, tile, first, count, panel);
                const NextPanel next = next_panel<I8mm, type>(call, tile, first + count, batch / I8mm::panel_rows + 1);
                panel_all_pairs<a>(panel, count, rows, batch, call.layout, first, next, acc);
            }
            for (int r = 0; r < batch; r += 2)
                store_pair(call, tile, r0 + r, acc[r / 2]);
        }
    }
}

void matmul(const PackedMatrix &matrix, uint64_t first, uint64_t last, const ActivationRows &in, int n, float *out,
            size_t out_stride, const float *bias) {
    if (n <= kDirectRows || is_float_type(matrix.type))
        return neon_matmul.matmul(matrix, first, last, in, n, out, out_stride, bias);
    const ProductCall call{matrix, first, last, in.quants, RowLayout(matrix.cols), n, out, out_stride, bias};
    with_quantized_type(matrix.type, [&]<BlockType type>() { pair_product<type>(call); });
}

} // namespace

const MatmulKernels i8mm_matmul{Level::i8mm, I8mm::lanes, quantize_portable, matmul, vector_bounds<Neon>};

} // namespace muser::cpu

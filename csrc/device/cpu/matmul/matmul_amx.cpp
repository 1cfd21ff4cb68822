// The AMX level: products of many activation rows on the matrix unit, 16 rows by 32 outputs at a time. Few rows are
// limited by memory and stay with AVX-512, whose packed tiles these are. Integers are exact and every float operation
// is add_block's, so the bits are those of every other level.
#include "device/cpu/matmul/each_type.h"
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/quantize_avx512.h"
#include "device/cpu/matmul/tiles_amx.h"
#include "device/cpu/matmul/vectors_avx512.h"

namespace muser::cpu {
namespace {

MUSER_INLINE int smaller(int a, int b) { return b < a ? b : a; } // std::min could be shared with other levels

constexpr int kTileRows = 16;
constexpr int kLeastTileRows = 16; // with fewer AVX-512 is as fast (15) or up to a third faster (8)
constexpr int kMostRows = 128;    // of one panel: unpacking it weighs more where the products are faster

// tdpbssd takes signed weights: zero points are subtracted once, when a panel is unpacked.
struct Amx : Avx512 {
    template <int zero> static MUSER_INLINE W without_zero_point(W x) {
        const __m512i z = _mm512_set1_epi8(zero);
        return {_mm512_sub_epi8(x.a, z), _mm512_sub_epi8(x.b, z)};
    }
    static MUSER_INLINE W signed_bytes(W x) { return x; }
    static MUSER_INLINE W iq4_levels(W index) {
        const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i *>(kIq4Levels)));
        return {_mm512_shuffle_epi8(table, index.a), _mm512_shuffle_epi8(table, index.b)};
    }
};

// Tile registers. The last rows of a call are fewer than 16 and have registers of their own shape.
enum : int { kRowsFull, kRowsTail, kWeightsA, kWeightsB, kSumsFullA, kSumsFullB, kSumsTailA, kSumsTailB };

TileConfig configure(int tail_rows) {
    TileConfig config;
    config.set(kRowsFull, kTileRows, kQuantBlock);
    config.set(kWeightsA, kQuantBlock / 4, 64);
    config.set(kWeightsB, kQuantBlock / 4, 64);
    config.set(kSumsFullA, kTileRows, 64);
    config.set(kSumsFullB, kTileRows, 64);
    if (tail_rows > 0) {
        config.set(kRowsTail, tail_rows, kQuantBlock);
        config.set(kSumsTailA, tail_rows, 64);
        config.set(kSumsTailB, tail_rows, 64);
    }
    return config;
}

using Sums = int32_t[kTileRows][Avx512::lanes];

// sums = weights [8][32 lanes][4] times the rows' values at `rows`.
template <bool full> MUSER_INLINE void dot(const std::byte *weights, const std::byte *rows, size_t stride, Sums &sums) {
    constexpr int a = full ? kRowsFull : kRowsTail, sums_a = full ? kSumsFullA : kSumsTailA,
                  sums_b = full ? kSumsFullB : kSumsTailB;
    tile_load<a>(rows, stride);
    tile_load<kWeightsA>(weights, 128);
    tile_load<kWeightsB>(weights + 64, 128);
    tile_zero<sums_a>();
    tile_zero<sums_b>();
    tile_dot<sums_a, a, kWeightsA>();
    tile_dot<sums_b, a, kWeightsB>();
    tile_store<sums_a>(sums[0], sizeof sums[0]);
    tile_store<sums_b>(&sums[0][16], sizeof sums[0]);
}

// The unit's results come back through memory, late: it works on the next blocks while these are scaled, and a row's
// accumulators stay in registers over all of them.
constexpr int kBlocksAtOnce = 4;

template <Arithmetic a, bool full>
MUSER_INLINE void dot_blocks(const PanelBlock<Amx, a> *panel, int count, const std::byte *rows, size_t stride, Sums *sums) {
    for (int b = 0; b < count; ++b)
        dot<full>(panel[b].groups[0], rows + kQuantBlock * b, stride, sums[b]);
}

// Rows lie in second-level cache, too far apart for the hardware's prefetch.
template <Arithmetic a, int count> MUSER_INLINE void fetch_row(const RowBlocks<1> &row) {
    for (int b = 0; b < count; b += 2)
        __builtin_prefetch(row.quants(0) + kQuantBlock * b);
    if (count == kBlocksAtOnce && row.block % Amx::panel_blocks == 0) {
        __builtin_prefetch(row.scale(0));
        if constexpr (a.scaling == Scaling::scale_min)
            __builtin_prefetch(row.sum(0));
    }
}

// The float arithmetic of `count` blocks (format.h) for n rows, as add_block has it. more: as many rows follow, whose
// same blocks come next.
template <Arithmetic a, int count>
MUSER_INLINE void scale_blocks(const PanelBlock<Amx, a> *panel, const Sums *sums, int n, bool more, RowBlocks<1> row,
                               float *acc) {
    const bool fresh = row.block == 0; // nothing is in acc yet
    using V = Avx512;
    const PanelSource<Amx, a> source(panel);
    BlockScales<Amx, a.scaling> scales[count];
    static_for<count>([&](auto b) __attribute__((always_inline)) { scales[b] = source.scales(b); });
    for (int r = 0; r < n; ++r, row.first += row.stride, acc += V::lanes) {
        if (more)
            fetch_row<a, count>({row.first + kTileRows * row.stride, row.stride, row.layout, row.block});
        V::F x = fresh ? V::F{} : V::load_f32(acc);
        static_for<count>([&](auto b) __attribute__((always_inline)) {
            const V::F t = V::to_float(V::load(reinterpret_cast<const std::byte *>(sums[b][r])));
            x = V::fma(t, V::mul(scales[b].d, V::broadcast(row.scale(0) + 4 * b)), x);
            if constexpr (a.scaling == Scaling::scale_min)
                x = V::fma(scales[b].m, V::broadcast(row.sum(0) + 4 * b), x);
        });
        V::store(acc, x);
    }
}

// Adds panel blocks [0, count), which are the rows' blocks from first_block on, to acc [n][lanes].
template <Arithmetic a, bool full>
__attribute__((noinline)) void panel_tile(const PanelBlock<Amx, a> *panel, int count, const std::byte *rows, int n, bool more,
                                          const RowLayout &layout, size_t first_block, float *acc) {
    alignas(64) Sums sums[2][kBlocksAtOnce];
    const auto dot_from = [&](int b) __attribute__((always_inline)) {
        dot_blocks<a, full>(panel + b, smaller(kBlocksAtOnce, count - b), rows + kQuantBlock * (first_block + b),
                            layout.bytes, sums[b / kBlocksAtOnce % 2]);
    };
    dot_from(0);
    for (int b = 0; b < count; b += kBlocksAtOnce) {
        if (b + kBlocksAtOnce < count)
            dot_from(b + kBlocksAtOnce);
        const Sums *ready = sums[b / kBlocksAtOnce % 2];
        const auto at = [&](int block) { return RowBlocks<1>{rows, layout.bytes, layout, first_block + block}; };
        const int ready_blocks = smaller(kBlocksAtOnce, count - b);
        int done = 0;
        const auto scale = [&]<int some>() __attribute__((always_inline)) {
            for (; ready_blocks - done >= some; done += some)
                scale_blocks<a, some>(panel + b + done, ready + done, n, more, at(b + done), acc);
        };
        scale.template operator()<kBlocksAtOnce>();
        scale.template operator()<2>();
        scale.template operator()<1>();
    }
}

template <BlockType type> void tile_product(const ProductCall &call) {
    constexpr Arithmetic a = arithmetic_of(type);
    constexpr int lanes = Amx::lanes;
    PanelBlock<Amx, a> panel[kMostPanelBlocks<Amx>];
    alignas(64) float acc[kMostRows * lanes];
    const int blocks = static_cast<int>(call.layout.blocks), most = batch_rows(call.layout, call.n, kTileRows, kMostRows);
    const TileUnit unit(configure(call.n % kTileRows));
    for (int r0 = 0; r0 < call.n; r0 += most) {
        const int batch = smaller(call.n - r0, most), full_rows = batch / kTileRows * kTileRows;
        const std::byte *rows = call.rows + r0 * call.layout.bytes;
        for (uint64_t tile = call.first; tile < call.last; ++tile) {
            for (int first = 0, count; first < blocks; first += count) {
                count = panel_size<Amx>(blocks - first);
                unpack_panel<Amx, type>(call.tile(tile), first, count, panel);
                NextPanel next = next_panel<Amx, type>(call, tile, first + count, batch / kTileRows + 1);
                const auto from = static_cast<size_t>(first);
                for (int r = 0; r < full_rows; r += kTileRows) {
                    next.fetch_share();
                    panel_tile<a, true>(panel, count, rows + r * call.layout.bytes, kTileRows, r + kTileRows < full_rows,
                                        call.layout, from, acc + r * lanes);
                }
                if (full_rows < batch)
                    panel_tile<a, false>(panel, count, rows + full_rows * call.layout.bytes, batch - full_rows, false,
                                         call.layout, from, acc + full_rows * lanes);
            }
            for (int r = 0; r < batch; ++r)
                call.store<Amx>(tile, r0 + r, acc + r * lanes);
        }
    }
}

// Types with a scale for each half of a block would fill the unit to a quarter only.
constexpr bool suits_tiles(BlockType type) {
    const Scaling scaling = packed_format(type).scaling;
    return !is_float_type(type) && (scaling == Scaling::scale || scaling == Scaling::scale_min);
}

void matmul(const PackedMatrix &matrix, uint64_t first, uint64_t last, const ActivationRows &in, int n, float *out,
            size_t out_stride, const float *bias) {
    if (n < kLeastTileRows || !suits_tiles(matrix.type))
        return avx512_matmul.matmul(matrix, first, last, in, n, out, out_stride, bias);
    const ProductCall call{matrix, first, last, in.quants, RowLayout(matrix.cols), n, out, out_stride, bias};
    with_quantized_type(matrix.type, [&]<BlockType type>() {
        if constexpr (suits_tiles(type))
            tile_product<type>(call);
    });
}

} // namespace

const MatmulKernels amx_matmul{Level::amx, Avx512::lanes, quantize_row_avx512, matmul};

} // namespace muser::cpu

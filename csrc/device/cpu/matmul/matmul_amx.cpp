// The AMX level: products of many activation rows on the matrix unit, 16 rows by 32 outputs at a time. Few rows are
// limited by memory and stay with AVX-512, whose packed tiles these are. Integers are exact and every float operation
// is add_block's, so the bits are those of every other level.
#include "device/cpu/matmul/each_type.h"
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/quantize_avx512.h"
#include "device/cpu/matmul/tiles_amx.h"
#include "device/cpu/matmul/vector_dispatch.h"
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
    static MUSER_INLINE W less_128(W x) { return Avx512::signed_bytes(x); }
    static MUSER_INLINE W iq4_levels(W index) {
        const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i *>(kIq4Levels)));
        return {_mm512_shuffle_epi8(table, index.a), _mm512_shuffle_epi8(table, index.b)};
    }
};

// Tile registers. Blocks take turns with two sets of sums: one is stored while the unit fills the other.
enum : int { kRows, kWeightsA, kWeightsB, kSums };

TileConfig configure(int rows) {
    TileConfig config;
    config.set(kRows, rows, kQuantBlock);
    config.set(kWeightsA, kQuantBlock / 4, 64);
    config.set(kWeightsB, kQuantBlock / 4, 64);
    for (int i = 0; i < 4; ++i)
        config.set(kSums + i, rows, 64);
    return config;
}

using Sums = int32_t[kTileRows][Avx512::lanes];

// Starts a set of sums: weights [8][32 lanes][4] times the rows' values at `rows`.
template <int set> MUSER_INLINE void dot(const std::byte *weights, const std::byte *rows, size_t stride) {
    constexpr int a = kSums + 2 * set, b = a + 1;
    tile_load<kRows>(rows, stride);
    tile_load<kWeightsA>(weights, 128);
    tile_load<kWeightsB>(weights + 64, 128);
    tile_zero<a>();
    tile_zero<b>();
    tile_dot<a, kRows, kWeightsA>();
    tile_dot<b, kRows, kWeightsB>();
}
template <int set> MUSER_INLINE void store_sums(Sums &sums) {
    tile_store<kSums + 2 * set>(sums[0], sizeof sums[0]);
    tile_store<kSums + 2 * set + 1>(&sums[0][16], sizeof sums[0]);
}

// A row's accumulators and the scales of so many blocks stay in registers while the rows pass over their sums. More sums
// would not stay in first-level cache beside the panel.
constexpr int kBlocksAtOnce = 4;

template <Arithmetic a>
MUSER_INLINE void dot_blocks(const PanelBlock<Amx, a> *panel, int count, const std::byte *rows, size_t stride, Sums *sums) {
    int b = 0;
    for (; b + 2 <= count; b += 2) {
        dot<0>(panel[b].groups[0], rows + kQuantBlock * b, stride);
        if (b > 0)
            store_sums<1>(sums[b - 1]);
        dot<1>(panel[b + 1].groups[0], rows + kQuantBlock * (b + 1), stride);
        store_sums<0>(sums[b]);
    }
    if (b < count)
        dot<0>(panel[b].groups[0], rows + kQuantBlock * b, stride);
    if (b > 0)
        store_sums<1>(sums[b - 1]);
    if (b < count)
        store_sums<0>(sums[b]);
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
template <Arithmetic a>
__attribute__((noinline)) void panel_tile(const PanelBlock<Amx, a> *panel, int count, const std::byte *rows, int n, bool more,
                                          const RowLayout &layout, size_t first_block, float *acc) {
    alignas(64) Sums sums[kBlocksAtOnce];
    for (int b = 0; b < count; b += kBlocksAtOnce) {
        const int ready = smaller(kBlocksAtOnce, count - b);
        dot_blocks<a>(panel + b, ready, rows + kQuantBlock * (first_block + b), layout.bytes, sums);
        const auto at = [&](int block) { return RowBlocks<1>{rows, layout.bytes, layout, first_block + block}; };
        int done = 0;
        const auto scale = [&]<int some>() __attribute__((always_inline)) {
            for (; ready - done >= some; done += some)
                scale_blocks<a, some>(panel + b + done, sums + done, n, more, at(b + done), acc);
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
    TileUnit unit(configure(kTileRows));
    for (int r0 = 0; r0 < call.n; r0 += most) {
        const int batch = smaller(call.n - r0, most), full_rows = batch / kTileRows * kTileRows;
        const std::byte *rows = call.rows + r0 * call.layout.bytes;
        for (uint64_t tile = call.first; tile < call.last; ++tile) {
            for (int first = 0, count; first < blocks; first += count) {
                count = panel_size<Amx>(blocks - first);
                unpack_panel<Amx, type>(call, tile, first, count, panel);
                NextPanel next = next_panel<Amx, type>(call, tile, first + count, batch / kTileRows + 1);
                const auto from = static_cast<size_t>(first);
                for (int r = 0; r < full_rows; r += kTileRows) {
                    next.fetch_share();
                    panel_tile<a>(panel, count, rows + r * call.layout.bytes, kTileRows, r + kTileRows < full_rows,
                                        call.layout, from, acc + r * lanes);
                }
                if (full_rows < batch) {
                    unit.use(configure(batch - full_rows));
                    panel_tile<a>(panel, count, rows + full_rows * call.layout.bytes, batch - full_rows, false, call.layout,
                                  from, acc + full_rows * lanes);
                    unit.use(configure(kTileRows));
                }
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

const MatmulKernels amx_matmul{Level::amx, Avx512::lanes, quantize_avx512, matmul, vector_bounds<Avx512>};

} // namespace muser::cpu

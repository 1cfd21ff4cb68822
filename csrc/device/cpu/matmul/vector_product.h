// The quantized matrix product of a vector level: loops over tiles, row sets and blocks, and the float
// arithmetic of format.h's table. A level gives its vectors and block_sums().
//
// Up to kDirectRows rows, a weight block is unpacked in registers and used for all of them: one pass over
// the packed weights at memory speed. For more, a panel of blocks is unpacked once into first-level cache
// and the rows stream over it, panel_rows at a time.
#pragma once

#include "device/cpu/matmul.h"
#include "device/cpu/matmul/activations.h"
#include "device/cpu/matmul/vector_source.h"

namespace muser::cpu {

inline constexpr int kDirectRows = 4;
inline constexpr int kFarBytes = 3072;              // from the block in use to the bytes asked for into second-level cache
inline constexpr int kNearBytes = 1024;             // and from there into the first
inline constexpr uint64_t kStreamBytes = 48 * 1024; // least bytes of one line of reading; see direct_product

// Where block `block` of R consecutive activation rows has its values.
template <int R> struct RowBlocks {
    const std::byte *first;
    size_t stride;
    RowLayout layout; // by value: the accumulators' stores could alias a reference
    size_t block;

    MUSER_INLINE const std::byte *row(int r) const { return first + r * stride; }
    MUSER_INLINE const std::byte *quants(int r) const { return row(r) + 32 * block; }
    MUSER_INLINE const std::byte *scale(int r) const { return row(r) + layout.scale + 4 * block; }
    MUSER_INLINE const std::byte *sum(int r) const { return row(r) + layout.sum + 4 * block; }
    MUSER_INLINE const std::byte *zero8(int r) const { return row(r) + layout.zero8 + 4 * block; }
    MUSER_INLINE const std::byte *zero128(int r) const { return row(r) + layout.zero128 + 4 * block; }
    MUSER_INLINE const std::byte *half_sum(int r) const { return row(r) + layout.half_sum + 8 * block; }
    MUSER_INLINE const std::byte *half_zero32(int r) const { return row(r) + layout.half_zero32 + 8 * block; }
    MUSER_INLINE const std::byte *pair_zero32(int r) const { return row(r) + layout.pair_zero32 + 8 * block; }
};

// acc [R][lanes] takes in the source's block b. The accumulators live in first-level cache where registers
// are few: a load and a store a block cost less than fewer rows in flight.
template <class V, class Source, int R>
MUSER_INLINE void add_block(const Source &source, int b, const RowBlocks<R> &rows, float *acc) {
    constexpr Scaling scaling = Source::arithmetic.scaling;
    typename V::F t[R];
    V::block_sums(source, b, rows, t);
    const auto scales = source.scales(b);
    for (int r = 0; r < R; ++r) {
        float *at = acc + r * V::lanes;
        auto x = V::fma(t[r], V::mul(scales.d, V::broadcast(rows.scale(r))), V::load_f32(at));
        if constexpr (scaling == Scaling::scale_min)
            x = V::fma(scales.m, V::broadcast(rows.sum(r)), x);
        if constexpr (scaling == Scaling::halves_min) {
            x = V::fma(scales.m0, V::broadcast(rows.half_sum(r)), x);
            x = V::fma(scales.m1, V::broadcast(rows.half_sum(r) + 4), x);
        }
        V::store(at, x);
    }
}

// One call of MatmulKernels::matmul.
struct ProductCall {
    const PackedMatrix &matrix;
    uint64_t first, last;
    const std::byte *rows;
    RowLayout layout;
    int n;
    float *out;
    size_t out_stride;
    const float *bias;

    MUSER_INLINE const std::byte *tile(uint64_t index) const { return matrix.data + index * matrix.tile_bytes; }
    // Where the second plane has its part of the unit; null if there is none.
    template <class Source> MUSER_INLINE const std::byte *low(const std::byte *unit) const {
        if constexpr (Source::format.split)
            return matrix.low + static_cast<size_t>(unit - matrix.data) / Source::unit_bytes * Source::low_unit_bytes;
        return nullptr;
    }

    // The finished accumulators of one tile and one activation row, [lanes].
    template <class V> void store(uint64_t tile, int r, const float *acc) const {
        const uint64_t o = tile * V::lanes;
        float *to = out + r * out_stride + o;
        if (o + V::lanes <= matrix.rows) {
            const auto value = V::load_f32(acc);
            V::store(to, bias ? V::add(value, V::load_f32(bias + o)) : value);
            return;
        }
        for (uint64_t lane = 0; o + lane < matrix.rows; ++lane)
            to[lane] = bias ? acc[lane] + bias[o + lane] : acc[lane];
    }
};

// What every output of a tile stays below, instead of the outputs: out [n][out_stride] has a number a tile. It is +inf where
// a bound is not finite.
struct BoundCall : ProductCall {
    template <class V> void store(uint64_t tile, int r, const float *acc) const {
        constexpr float lowest = -3.40282347e38f, infinity = __builtin_inff();
        float largest = -infinity;
        bool known = true;
        for (int lane = 0; lane < V::lanes; ++lane) {
            known &= acc[lane] >= lowest;
            largest = acc[lane] > largest ? acc[lane] : largest;
        }
        out[r * out_stride + tile] = known ? largest : infinity;
    }
};

// Asks for the `share` bytes some way ahead of `at`, unless they are at or past `end`.
template <int share> MUSER_INLINE void fetch_ahead(const std::byte *at, const std::byte *end) {
    if (at + kFarBytes < end)
        for (int i = 0; i < share; i += 64) {
            __builtin_prefetch(at + kFarBytes + i, 0, 2);
            __builtin_prefetch(at + kNearBytes + i);
        }
}

// Adds one packed unit to acc [R][lanes], and asks for the bytes of the unit some way ahead unless they are
// at or past `end`.
template <class V, BlockType type, int R>
MUSER_INLINE void add_unit(const ProductCall &call, const std::byte *unit, const std::byte *end, size_t block,
                           float *acc) {
    using Source = PackedSource<V, type>;
    constexpr int share = Source::unit_bytes / Source::unit_blocks;
    const std::byte *const low = call.template low<Source>(unit);
    Source source;
    source.open_unit(unit, low);
    for (int b = 0; b < Source::unit_blocks && block < call.layout.blocks; ++b, ++block) {
        fetch_ahead<share>(unit + b * share, end);
        if constexpr (Source::format.split)
            fetch_ahead<Source::block_bytes>(low + b * Source::block_bytes, call.template low<Source>(end));
        add_block<V>(source, b, RowBlocks<R>{call.rows, call.layout.bytes, call.layout, block}, acc);
    }
}

// Memory is the limit, and a core reads faster along a few lines than along one: the range of tiles is cut into
// parts that take turns, a unit at a time. Parts shorter than kStreamBytes do not pay, nor more than two of the
// large units of the 256-value types.
template <class V, BlockType type, int R, class Call> void direct_product(const Call &call) {
    using Source = PackedSource<V, type>;
    constexpr int most = Source::unit_blocks == 2 && !Source::format.split ? 4 : 2;
    const uint64_t count = call.last - call.first, tile_bytes = call.matrix.tile_bytes;
    const uint64_t worth = count * tile_bytes / kStreamBytes;
    const int parts = worth >= most ? most : worth > 1 ? static_cast<int>(worth) : 1;
    const std::byte *start[most + 1];
    uint64_t first[most + 1];
    for (int p = 0; p <= parts; ++p) {
        first[p] = call.first + count * p / parts;
        start[p] = call.tile(first[p]);
    }
    for (uint64_t i = 0; i < (count + parts - 1) / parts; ++i) {
        alignas(64) float acc[most][R * V::lanes] = {};
        const auto has = [&](int p) { return first[p] + i < first[p + 1]; };
        size_t at = i * tile_bytes;
        for (size_t block = 0; block < call.layout.blocks;
             block += Source::unit_blocks, at += Source::unit_bytes)
            for (int p = 0; p < parts; ++p)
                if (has(p))
                    add_unit<V, type, R>(call, start[p] + at, start[p + 1], block, acc[p]);
        for (int p = 0; p < parts; ++p)
            for (int r = 0; r < R && has(p); ++r)
                call.template store<V>(first[p] + i, r, acc[p] + r * V::lanes);
    }
}

// Adds panel blocks [0, count), which are the rows' blocks from first_block on, to acc [R][lanes].
template <class V, Arithmetic a, int R>
__attribute__((noinline)) void panel_rows(const PanelBlock<V, a> *panel, int count, const std::byte *rows,
                                          const RowLayout &layout, size_t first_block, float *acc) {
    const PanelSource<V, a> source(panel);
    if (first_block == 0)
        for (int r = 0; r < R; ++r)
            V::store(acc + r * V::lanes, typename V::F{});
    for (int b = 0; b < count; ++b)
        add_block<V>(source, b, RowBlocks<R>{rows, layout.bytes, layout, first_block + b}, acc);
}

// The packed bytes of the panel to come, fetched while the rows pass over this one, a share with each of their steps:
// a core waits when it asks for all of them at once.
class NextPanel {
  public:
    MUSER_INLINE NextPanel(const std::byte *first, const std::byte *last, int steps)
        : at_(first), last_(last), share_(64 * ((last - first) / (64 * steps) + 1)) {}
    MUSER_INLINE void fetch_share() {
        for (const std::byte *const stop = at_ + share_; at_ < stop && at_ < last_; at_ += 64)
            __builtin_prefetch(at_, 0, 2);
    }

  private:
    const std::byte *at_, *last_;
    ptrdiff_t share_;
};

// A panel takes in what is left of a tile if that is not much more: the rows pass over a short one at little gain.
template <class V> constexpr int kMostPanelBlocks = V::panel_blocks * 3 / 2;
template <class V> MUSER_INLINE int panel_size(int left) {
    return left <= kMostPanelBlocks<V> ? left : V::panel_blocks;
}

// What follows the panel of `tile` that ends at block `next`, as far as the call goes.
template <class V, BlockType type>
MUSER_INLINE NextPanel next_panel(const ProductCall &call, uint64_t tile, int next, int steps) {
    using Source = PackedSource<V, type>;
    constexpr int panel_bytes = V::panel_blocks / Source::unit_blocks * Source::unit_bytes;
    const bool same_tile = static_cast<size_t>(next) < call.layout.blocks;
    const std::byte *from = same_tile ? call.tile(tile) + static_cast<size_t>(next / V::panel_blocks) * panel_bytes
                                      : call.tile(tile + 1);
    const std::byte *end = call.tile(call.last);
    return {from, end - from < panel_bytes ? end : from + panel_bytes, steps};
}

template <class V, Arithmetic a>
void panel_all_rows(const PanelBlock<V, a> *panel, int count, const std::byte *rows, int n,
                    const RowLayout &layout, size_t first_block, NextPanel next, float *acc) {
    const auto step = [&]<int R>() {
        const int rest = R > 4 ? 2 : 0; // two rows are too few by themselves: two fours rather than them after a six
        for (; n >= R && (rest == 0 || n != R + rest); n -= R, rows += R * layout.bytes, acc += R * V::lanes) {
            next.fetch_share();
            panel_rows<V, a, R>(panel, count, rows, layout, first_block, acc);
        }
    };
    step.template operator()<V::panel_rows>();
    if constexpr (V::panel_rows > 4)
        step.template operator()<4>();
    step.template operator()<2>();
    step.template operator()<1>();
}

// Unpacks blocks [first, first + count) of a tile; first is a multiple of a unit's blocks.
template <class V, BlockType type>
void unpack_panel(const ProductCall &call, uint64_t tile, int first, int count, PanelBlock<V, arithmetic_of(type)> *panel) {
    using Source = PackedSource<V, type>;
    const std::byte *unit = call.tile(tile) + static_cast<size_t>(first / Source::unit_blocks) * Source::unit_bytes;
    for (int done = 0; done < count; unit += Source::unit_bytes) {
        Source source;
        source.open_unit(unit, call.template low<Source>(unit));
        for (int b = 0; b < Source::unit_blocks && done < count; ++b, ++done)
            panel[done].unpack(source, b);
    }
}

inline constexpr int kRowBatch = 128; // most rows whose accumulators of one tile are kept beside the panel
inline constexpr size_t kBatchBytes = 1280 * 1024; // of activations that should stay in second-level cache

// Rows of a call of n that pass over a panel together: a multiple of `step`, in batches of nearly equal size.
MUSER_INLINE int batch_rows(const RowLayout &layout, int n, int step, int most) {
    int fit = static_cast<int>(kBatchBytes / (40 * layout.blocks + 1)) / step * step;
    fit = fit < 16 ? 16 : fit > most ? most : fit;
    const int batches = (n + fit - 1) / fit, steps = (n + step - 1) / step, even = (steps + batches - 1) / batches * step;
    return even > most ? most : even;
}

template <class V, BlockType type> void panel_product(const ProductCall &call) {
    constexpr Arithmetic a = arithmetic_of(type);
    PanelBlock<V, a> panel[kMostPanelBlocks<V>];
    alignas(64) float acc[kRowBatch * V::lanes];
    const int blocks = static_cast<int>(call.layout.blocks), most = batch_rows(call.layout, call.n, V::panel_rows, kRowBatch);
    for (int r0 = 0; r0 < call.n; r0 += most) {
        const int batch = call.n - r0 < most ? call.n - r0 : most;
        const std::byte *rows = call.rows + r0 * call.layout.bytes;
        for (uint64_t tile = call.first; tile < call.last; ++tile) {
            for (int first = 0, count; first < blocks; first += count) {
                count = panel_size<V>(blocks - first);
                unpack_panel<V, type>(call, tile, first, count, panel);
                const NextPanel next = next_panel<V, type>(call, tile, first + count, batch / V::panel_rows + 1);
                panel_all_rows<V, a>(panel, count, rows, batch, call.layout, first, next, acc);
            }
            for (int r = 0; r < batch; ++r)
                call.store<V>(tile, r0 + r, acc + r * V::lanes);
        }
    }
}

// Up to kDirectRows rows.
template <class V, BlockType type, class Call> void few_rows_product(const Call &call) {
    switch (call.n) {
    case 1: return direct_product<V, type, 1>(call);
    case 2: return direct_product<V, type, 2>(call);
    case 3: return direct_product<V, type, 3>(call);
    default: return direct_product<V, type, 4>(call);
    }
}

template <class V, BlockType type> void quantized_product(const ProductCall &call) {
    call.n <= kDirectRows ? few_rows_product<V, type>(call) : panel_product<V, type>(call);
}

} // namespace muser::cpu

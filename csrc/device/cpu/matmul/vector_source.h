// Unpacking of weight blocks to vectors, one template for all vector levels. V names a level's vectors: W
// holds one 32-bit word a lane, F one float32 a lane, both two or more registers wide (vectors_<level>.h).
//
// Everything that takes a V has internal linkage, because every V lives in an unnamed namespace: code
// compiled with one level's instructions can never be merged with another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "device/cpu/matmul/format.h"

namespace muser::cpu {

// Calls f(constant 0), f(constant 1), ...: a loop whose index may be a template argument.
template <int n, class Function> MUSER_INLINE void static_for(Function &&f) {
    [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
        (f(std::integral_constant<int, i>{}), ...);
    }(std::make_integer_sequence<int, n>{});
}

// What the integer arithmetic of a block depends on; types that agree in it share their panel kernels.
struct Arithmetic {
    Scaling scaling;
    int zero, max;
    bool is_signed;
};

constexpr Arithmetic arithmetic_of(BlockType type) {
    const PackedFormat format = packed_format(type);
    return {format.scaling, format.zero, format.max, format.is_signed};
}

template <class V, Scaling> struct BlockScales;
template <class V> struct BlockScales<V, Scaling::scale> {
    typename V::F d;
};
template <class V> struct BlockScales<V, Scaling::scale_min> {
    typename V::F d, m;
};
template <class V> struct BlockScales<V, Scaling::halves> {
    typename V::F d;
};
template <class V> struct BlockScales<V, Scaling::halves_min> {
    typename V::F d, m0, m1;
};

// Blocks straight from a packed unit.
template <class V, BlockType type> class PackedSource {
  public:
    using W = typename V::W;
    using F = typename V::F;
    static constexpr PackedFormat format = packed_format(type);
    static constexpr Arithmetic arithmetic = arithmetic_of(type);
    static constexpr int unit_blocks = format.blocks;
    static constexpr int block_bytes = format.block_bytes(V::lanes);
    static constexpr int unit_bytes = format.unit_bytes(V::lanes);
    static constexpr int low_unit_bytes = format.low_unit_bytes(V::lanes);
    using Scales = BlockScales<V, format.scaling>;

    // low: the unit's part of the second plane, of a split type.
    MUSER_INLINE void open_unit(const std::byte *unit, const std::byte *low = nullptr) {
        unit_ = unit;
        low_ = low;
        if constexpr (format.blocks == 8) {
            d_ = V::load_f16(half(0));
            if constexpr (format.store == ScaleStore::super_cm || format.store == ScaleStore::super_cmcm)
                minus_dmin_ = V::negate(V::load_f16(half(1)));
        }
    }

    // Values 4g .. 4g + 3 of the unit's block b, one byte each, in the form that the level likes: unsigned
    // ones with or without their zero point, signed ones as they are or with 128 added.
    template <int g> MUSER_INLINE W group(int b) const {
        const std::byte *block = unit_ + format.halves_bytes(V::lanes) + b * block_bytes;
        const auto word = [&](int index) __attribute__((always_inline)) {
            return V::load(block + index * 4 * V::lanes);
        };
        if constexpr (format.bytes)
            return V::signed_bytes(word(g));
        if constexpr (format.split) {
            const W high = word(g % 4), low = V::load(low_ + b * block_bytes + g % 4 * 4 * V::lanes), mask = V::splat(0x0f0f0f0fu);
            if constexpr (g < 4)
                return V::less_128(V::bit_or(V::shift_left(V::bit_and(high, mask), 4), V::bit_and(low, mask)));
            else
                return V::less_128(V::bit_or(V::bit_and(high, V::splat(0xf0f0f0f0u)), V::bit_and(V::template shift_right<4>(low), mask)));
        }
        W value;
        if constexpr (format.nibbles) {
            if constexpr (g < 4)
                value = V::bit_and(word(g), V::splat(0x0f0f0f0fu));
            else
                value = V::bit_and(V::template shift_right<4>(word(g - 4)), V::splat(0x0f0f0f0fu));
        }
        if constexpr (format.pairs) {
            constexpr int to = format.nibbles ? 4 : 0;
            const W high = field<2 * (g % 4), to>(word((format.nibbles ? 4 : 0) + g / 4), 0x03030303u);
            value = format.nibbles ? V::bit_or(value, high) : high;
        }
        if constexpr (format.bits) {
            constexpr int to = format.nibbles ? 4 : 2;
            value = V::bit_or(value, field<g, to>(word(format.words() - 1), 0x01010101u));
        }
        if constexpr (format.levels)
            return V::iq4_levels(value);
        else if constexpr (format.zero != 0)
            return V::template without_zero_point<format.zero>(value);
        else
            return value;
    }

    MUSER_INLINE Scales scales(int b) const {
        if constexpr (format.store == ScaleStore::block_d) {
            return {V::load_f16(half(b))};
        } else if constexpr (format.store == ScaleStore::block_d16) {
            const F d = V::load_f16(half(b));
            const float sixteen = 16;
            return {V::mul(d, V::broadcast(&sixteen)), d};
        } else if constexpr (format.store == ScaleStore::block_dm) {
            return {V::load_f16(half(2 * b)), V::load_f16(half(2 * b + 1))};
        } else if constexpr (format.store == ScaleStore::super_i8) {
            // two blocks a half: the odd block's byte is the upper one
            const W c = V::top_byte(V::shift_left(V::load_u16(half(1 + b / 2)), b % 2 ? 16 : 24));
            return {V::mul(d_, V::to_float(c))};
        } else if constexpr (format.store == ScaleStore::super_cm) {
            const W cm = V::load_u16(half(2 + b));
            return {V::mul(d_, V::to_float(V::bit_and(cm, V::splat(0xff)))),
                    V::mul(minus_dmin_, V::to_float(V::template shift_right<8>(cm)))};
        } else if constexpr (format.store == ScaleStore::super_cc) {
            return {d_};
        } else {
            const W x = V::load_u16(half(2 + b));
            const W m0 = V::bit_and(V::template shift_right<4>(x), V::splat(0x0f));
            return {d_, V::mul(minus_dmin_, V::to_float(m0)),
                    V::mul(minus_dmin_, V::to_float(V::template shift_right<12>(x)))};
        }
    }

    // The integer factor of a half, in the form the level likes.
    template <int half_index> MUSER_INLINE typename V::C factor(int b) const {
        W cc;
        if constexpr (format.store == ScaleStore::super_cc)
            cc = V::load_u16(half(1 + b));
        else
            cc = V::bit_and(V::load_u16(half(2 + b)), V::splat(0x0f0f));
        if constexpr (half_index == 0)
            return V::low_factor(cc);
        else
            return V::high_factor(cc);
    }

  private:
    MUSER_INLINE const std::byte *half(int index) const { return unit_ + index * 2 * V::lanes; }

    // The field at bit `from` of every byte, moved to bit `to`; mask as for a field at bit 0.
    template <int from, int to> static MUSER_INLINE W field(W word, uint32_t mask) {
        if constexpr (from < to)
            word = V::shift_left(word, to - from);
        else if constexpr (from > to)
            word = V::template shift_right<from - to>(word);
        return V::bit_and(word, V::splat(mask << to));
    }

    const std::byte *unit_ = nullptr, *low_ = nullptr;
    F d_{}, minus_dmin_{};
};

// A block unpacked once for many activation rows. Plain arrays that are written and read a vector at a time:
// the compiler copies structures of vectors in pieces, which stalls.
template <class V, Arithmetic a> struct alignas(64) PanelBlock {
    static constexpr Scaling scaling = a.scaling;
    using Scales = BlockScales<V, scaling>;
    static constexpr bool has_factors = scaling == Scaling::halves || scaling == Scaling::halves_min;
    static constexpr int n_scales = sizeof(Scales) / sizeof(typename V::F);
    std::byte groups[8][4 * V::lanes];
    float scales[n_scales][V::lanes];
    std::byte factors[has_factors ? 2 : 1][4 * V::lanes];

    // From block b of a PackedSource's unit.
    template <class Source> MUSER_INLINE void unpack(const Source &source, int b) {
        static_for<8>([&](auto g) { V::store(groups[g], source.template group<g>(b)); });
        const Scales from = source.scales(b);
        V::store(scales[0], from.d);
        if constexpr (scaling == Scaling::scale_min)
            V::store(scales[1], from.m);
        if constexpr (scaling == Scaling::halves_min) {
            V::store(scales[1], from.m0);
            V::store(scales[2], from.m1);
        }
        if constexpr (has_factors)
            static_for<2>([&](auto half) { V::store(factors[half], source.template factor<half>(b)); });
    }
    MUSER_INLINE Scales get_scales() const {
        if constexpr (n_scales == 1)
            return {V::load_f32(scales[0])};
        else if constexpr (n_scales == 2)
            return {V::load_f32(scales[0]), V::load_f32(scales[1])};
        else
            return {V::load_f32(scales[0]), V::load_f32(scales[1]), V::load_f32(scales[2])};
    }
};

template <class V, Arithmetic a> class PanelSource {
  public:
    static constexpr Arithmetic arithmetic = a;
    using Block = PanelBlock<V, a>;

    explicit PanelSource(const Block *blocks) : blocks_(blocks) {}
    template <int g> MUSER_INLINE typename V::W group(int b) const { return V::load(blocks_[b].groups[g]); }
    MUSER_INLINE BlockScales<V, a.scaling> scales(int b) const { return blocks_[b].get_scales(); }
    template <int half> MUSER_INLINE typename V::C factor(int b) const {
        return V::load_factor(blocks_[b].factors[half]);
    }

  private:
    const Block *blocks_;
};

} // namespace muser::cpu

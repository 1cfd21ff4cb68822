// AVX2 vectors with vpdpbusd (dot_sums.h), which processors without AVX-512 have as AVX-VNNI: where AVX2 alone takes two to four
// instructions for a product, it takes one. Include from *_avxvnni.cpp only.
#pragma once

#include "device/cpu/matmul/dot_sums.h"
#include "device/cpu/matmul/vectors_avx2.h"

namespace muser::cpu {
namespace {

struct AvxVnni : Avx2 {
    using C = F; // a half's factor; products with it stay below 2^24, so float32 is exact

    using Avx2::store;
    static MUSER_INLINE void store(std::byte *p, F x) { store(reinterpret_cast<float *>(p), x); }
    static MUSER_INLINE C load_factor(const std::byte *p) { return load_f32(reinterpret_cast<const float *>(p)); }
    static MUSER_INLINE C low_factor(W cc) { return to_float(top_byte(shift_left(cc, 24))); }
    static MUSER_INLINE C high_factor(W cc) { return to_float(top_byte(shift_left(cc, 16))); }

    // Signed weights have 128 added.
    static MUSER_INLINE W signed_bytes(W x) { return Avx2::less_128(x); }
    static MUSER_INLINE W less_128(W x) { return x; }
    static MUSER_INLINE W iq4_levels(W index) { return signed_bytes(Avx2::iq4_levels(index)); }

    static MUSER_INLINE W splat_word(const std::byte *p) { return both(broadcast_word(p)); }
    // sum + the products of w's four bytes, unsigned, with the four at `values`.
    static MUSER_INLINE W dot(W sum, W w, const std::byte *values) {
        const __m256i x = broadcast_word(values);
        return {_mm256_dpbusd_avx_epi32(sum.a, w.a, x), _mm256_dpbusd_avx_epi32(sum.b, w.b, x)};
    }
    template <class Source, int R>
    static MUSER_INLINE void block_sums(const Source &source, int b, const RowBlocks<R> &rows, F (&out)[R]) {
        dot_sums<AvxVnni>(source, b, rows, out);
    }
};

} // namespace
} // namespace muser::cpu

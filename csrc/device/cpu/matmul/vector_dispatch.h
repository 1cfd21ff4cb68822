// MatmulKernels::matmul and bounds of a vector level: the kernel of the weight's type.
#pragma once

#include "device/cpu/matmul/bounds.h"
#include "device/cpu/matmul/each_type.h"
#include "device/cpu/matmul/vector_float.h"
#include "device/cpu/matmul/vector_product.h"

namespace muser::cpu {

template <class V>
void vector_matmul(const PackedMatrix &matrix, uint64_t first, uint64_t last, const ActivationRows &in, int n,
                   float *out, size_t out_stride, const float *bias) {
    const ProductCall call{matrix, first, last, in.quants, RowLayout(matrix.cols), n, out, out_stride, bias};
    switch (matrix.type) {
    case BlockType::F32: return float_product<V, BlockType::F32>(call, in.values, in.stride);
    case BlockType::F16: return float_product<V, BlockType::F16>(call, in.values, in.stride);
    case BlockType::BF16: return float_product<V, BlockType::BF16>(call, in.values, in.stride);
    default: break;
    }
    with_quantized_type(matrix.type, [&]<BlockType type>() { quantized_product<V, type>(call); });
}

template <class V>
void vector_bounds(const PackedMatrix &matrix, uint64_t first, uint64_t last, const ActivationRows &in, int n, float *out,
                   size_t out_stride) {
    const PackedMatrix high = first_plane(matrix);
    few_rows_product<V, kHighQ8>(BoundCall{{high, first, last, in.quants, RowLayout(matrix.cols), n, out, out_stride, nullptr}});
}

} // namespace muser::cpu

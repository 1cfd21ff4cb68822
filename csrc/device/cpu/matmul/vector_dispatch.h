// MatmulKernels::matmul of a vector level: the kernel of the weight's type.
#pragma once

#include "device/cpu/matmul/vector_float.h"
#include "device/cpu/matmul/vector_product.h"

namespace muser::cpu {

template <class V>
void vector_matmul(const PackedMatrix &matrix, uint64_t first, uint64_t last, const ActivationRows &in, int n, float *out,
                   size_t out_stride, const float *bias) {
    const ProductCall call{matrix, first, last, in.quants, RowLayout(matrix.cols), n, out, out_stride, bias};
    switch (matrix.type) {
    case BlockType::F32: return float_product<V, BlockType::F32>(call, in.values, in.stride);
    case BlockType::F16: return float_product<V, BlockType::F16>(call, in.values, in.stride);
    case BlockType::BF16: return float_product<V, BlockType::BF16>(call, in.values, in.stride);
    case BlockType::Q4_0: return quantized_product<V, BlockType::Q4_0>(call);
    case BlockType::Q4_1: return quantized_product<V, BlockType::Q4_1>(call);
    case BlockType::Q5_0: return quantized_product<V, BlockType::Q5_0>(call);
    case BlockType::Q5_1: return quantized_product<V, BlockType::Q5_1>(call);
    case BlockType::Q8_0: return quantized_product<V, BlockType::Q8_0>(call);
    case BlockType::Q2_K: return quantized_product<V, BlockType::Q2_K>(call);
    case BlockType::Q3_K: return quantized_product<V, BlockType::Q3_K>(call);
    case BlockType::Q4_K: return quantized_product<V, BlockType::Q4_K>(call);
    case BlockType::Q5_K: return quantized_product<V, BlockType::Q5_K>(call);
    case BlockType::Q6_K: return quantized_product<V, BlockType::Q6_K>(call);
    case BlockType::IQ4_NL: return quantized_product<V, BlockType::IQ4_NL>(call);
    case BlockType::IQ4_XS: return quantized_product<V, BlockType::IQ4_XS>(call);
    }
}

} // namespace muser::cpu

// The i8mm level: products of many activation rows on smmla. Few rows are limited by memory and stay with NEON, whose
// packed tiles these are, as do float weights.
#include "device/cpu/matmul/each_type.h"
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/vectors_i8mm.h"

namespace muser::cpu {
namespace {

void matmul(const PackedMatrix &matrix, uint64_t first, uint64_t last, const ActivationRows &in, int n, float *out,
            size_t out_stride, const float *bias) {
    if (n <= kDirectRows || is_float_type(matrix.type))
        return neon_matmul.matmul(matrix, first, last, in, n, out, out_stride, bias);
    const ProductCall call{matrix, first, last, in.quants, RowLayout(matrix.cols), n, out, out_stride, bias};
    with_quantized_type(matrix.type, [&]<BlockType type>() { panel_product<I8mm, type>(call); });
}

} // namespace

const MatmulKernels i8mm_matmul{Level::i8mm, Neon::lanes, quantize_row_portable, matmul};

} // namespace muser::cpu

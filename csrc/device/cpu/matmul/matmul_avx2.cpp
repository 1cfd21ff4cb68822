// The AVX2 level: quantized products on vpmaddubsw, float products on FMA.
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/quantize_avx2.h"
#include "device/cpu/matmul/vector_dispatch.h"
#include "device/cpu/matmul/vectors_avx2.h"

namespace muser::cpu {

const MatmulKernels avx2_matmul{Level::avx2, Avx2::lanes, quantize_avx2, vector_matmul<Avx2>, vector_bounds<Avx2>};

} // namespace muser::cpu

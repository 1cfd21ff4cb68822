// The AVX-512 level: quantized products on vpdpbusd, float products on 512-bit FMA.
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/quantize_avx512.h"
#include "device/cpu/matmul/vector_dispatch.h"
#include "device/cpu/matmul/vectors_avx512.h"

namespace muser::cpu {

const MatmulKernels avx512_matmul{Level::avx512, Avx512::lanes, quantize_avx512, vector_matmul<Avx512>, vector_bounds<Avx512>};

} // namespace muser::cpu

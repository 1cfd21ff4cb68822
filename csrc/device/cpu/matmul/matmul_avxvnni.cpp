// The AVX-VNNI level: quantized products on vpdpbusd in 256-bit registers, all else as AVX2 has it.
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/quantize_avx2.h"
#include "device/cpu/matmul/vector_dispatch.h"
#include "device/cpu/matmul/vectors_avxvnni.h"

namespace muser::cpu {

const MatmulKernels avxvnni_matmul{Level::avxvnni, AvxVnni::lanes, quantize_avx2, vector_matmul<AvxVnni>, vector_bounds<AvxVnni>};

} // namespace muser::cpu

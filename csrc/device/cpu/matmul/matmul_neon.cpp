// The NEON level: quantized products on sdot, float products on FMA.
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/vector_dispatch.h"
#include "device/cpu/matmul/vectors_neon.h"

namespace muser::cpu {

const MatmulKernels neon_matmul{Level::neon, Neon::lanes, quantize_portable, vector_matmul<Neon>, vector_bounds<Neon>};

} // namespace muser::cpu

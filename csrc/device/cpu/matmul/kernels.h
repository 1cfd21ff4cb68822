// The kernel tables of the levels; matmul_kernels() (table.cpp) chooses among those this build has.
#pragma once

#include "device/cpu/matmul.h"

namespace muser::cpu {

void quantize_portable(const float *src, uint64_t cols, uint64_t first, uint64_t last, std::byte *dst);

extern const MatmulKernels portable_matmul;
extern const MatmulKernels avx2_matmul;
extern const MatmulKernels avxvnni_matmul;
extern const MatmulKernels avx512_matmul;
extern const MatmulKernels amx_matmul;
extern const MatmulKernels neon_matmul;
extern const MatmulKernels i8mm_matmul;

} // namespace muser::cpu

// The ops table of the avx512 level.
#include "device/cpu/ops.h"
#include "device/cpu/simd_avx512.h"

#define MUSER_LEVEL avx512
#include "device/cpu/vector_math.h"
#include "device/cpu/row_kernels.h"
#include "device/cpu/store_kernels.h"
#include "device/cpu/attention_kernels.h"
#include "device/cpu/ops_table.h"

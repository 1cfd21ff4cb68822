// The ops table of the neon level.
#include "device/cpu/ops.h"
#include "device/cpu/simd_neon.h"

#define MUSER_LEVEL neon
#include "device/cpu/vector_math.h"
#include "device/cpu/row_kernels.h"
#include "device/cpu/store_kernels.h"
#include "device/cpu/attention_kernels.h"
#include "device/cpu/ops_table.h"

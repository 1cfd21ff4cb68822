// The ops table of the portable level.
#include "device/cpu/ops.h"
#include "device/cpu/simd_portable.h"

#define MUSER_LEVEL portable
#include "device/cpu/vector_math.h"
#include "device/cpu/row_kernels.h"
#include "device/cpu/store_kernels.h"
#include "device/cpu/attention_kernels.h"
#include "device/cpu/ops_table.h"

// Stands in for <metal_stdlib> and its parts. In front of every translated file; see README.md for what it has.
#pragma once
#pragma clang system_header

#include "types.h"

#include "limits.h"

#ifdef MSL_PTX
#include "machine_ptx.h"
#include "scalar_ptx.h"
#else
#include "machine.h"
#include "scalar.h"
#endif

#include "math.h"

#include "simd.h"

#include "matrix.h"

#include "atomic.h"

using metal::as_type;
using metal::vec;
#define METAL_FUNC inline __attribute__((always_inline))

// The kernel table of a level.
#include "device/cpu/matmul/kernels.h"

#include "core/error.h"

namespace muser::cpu {

const MatmulKernels &matmul_kernels(Level level) {
    switch (level) {
    case Level::portable: return portable_matmul;
#if defined(__x86_64__)
    case Level::avx2: return avx2_matmul;
    case Level::avx512: return avx512_matmul;
#elif defined(__aarch64__)
    case Level::neon: return neon_matmul;
#endif
    default: break;
    }
    throw Error(ErrorCode::internal, "this build has no kernels for level " + std::string(level_name(level)));
}

} // namespace muser::cpu

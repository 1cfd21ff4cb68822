// The kernel table of a level, and the error of code that is compiled for all levels.
#include "device/cpu/matmul/kernels.h"

#include "core/error.h"
#include "device/cpu/matmul/each_type.h"

namespace muser::cpu {

const MatmulKernels &matmul_kernels(Level level) {
    switch (level) {
    case Level::portable: return portable_matmul;
#if defined(__x86_64__)
    case Level::avx2: return avx2_matmul;
#if defined(MUSER_HAS_AVXVNNI)
    case Level::avxvnni: return avxvnni_matmul;
#endif
    case Level::avx512: return avx512_matmul;
#if defined(MUSER_HAS_AMX)
    case Level::amx: return amx_matmul;
#endif
#elif defined(__aarch64__)
    case Level::neon: return neon_matmul;
#if defined(MUSER_HAS_I8MM)
    case Level::i8mm: return i8mm_matmul;
#endif
#endif
    default: break;
    }
    throw Error(ErrorCode::internal, "this build has no kernels for level " + std::string(level_name(level)));
}

void throw_not_quantized(BlockType type) {
    throw Error(ErrorCode::internal, "not a quantized block type: " + std::string(gguf::traits(type).name));
}

} // namespace muser::cpu

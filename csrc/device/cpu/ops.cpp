// Chooses the ops table of a level. A build has the levels of its own architecture only.
#include "device/cpu/ops.h"

namespace muser::cpu {

namespace portable {
const OpKernels &op_table();
}
#if defined(__x86_64__)
namespace avx2 {
const OpKernels &op_table();
}
namespace avx512 {
const OpKernels &op_table();
}
#elif defined(__aarch64__)
namespace neon {
const OpKernels &op_table();
}
#endif

const OpKernels &op_kernels(Level level) {
    switch (level) {
#if defined(__x86_64__)
    case Level::avx2:
    case Level::avxvnni: // only matrix products have more to gain
        return avx2::op_table();
    case Level::avx512:
    case Level::amx: // as above
        return avx512::op_table();
#elif defined(__aarch64__)
    case Level::neon:
    case Level::i8mm: // as above
        return neon::op_table();
#endif
    default:
        return portable::op_table();
    }
}

} // namespace muser::cpu

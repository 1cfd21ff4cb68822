#include "device/cpu/matmul/kernels.h"
namespace muser::cpu { const MatmulKernels avx512_matmul{Level::avx512, 16, [](const float *s, uint64_t c, std::byte *d) { portable_matmul.quantize_row(s, c, d); }, [](const PackedMatrix &m, uint64_t f, uint64_t l, const ActivationRows &in, int n, float *o, size_t s, const float *b) { portable_matmul.matmul(m, f, l, in, n, o, s, b); }}; }

// Every kernel that reads F16 weights.
#include "embed.h"
#include "matmul.h"
#include "matvec_staged.h"
#include "weight_float.h"

template [[host_name("embed_f16")]] kernel decltype(embed<F16>) embed<F16>;
template [[host_name("matvec_f16_1")]] kernel decltype(matvec<F16, 2, 1, 1>) matvec<F16, 2, 1, 1>;
template [[host_name("matvec_f16_2")]] kernel decltype(matvec<F16, 2, 2, 1>) matvec<F16, 2, 2, 1>;
template [[host_name("matvec_f16_3")]] kernel decltype(matvec<F16, 2, 3, 1>) matvec<F16, 2, 3, 1>;
template [[host_name("matvec_f16_4")]] kernel decltype(matvec<F16, 2, 4, 1>) matvec<F16, 2, 4, 1>;
template [[host_name("matvec_divided_f16_1")]] kernel decltype(matvec<F16, 2, 1, 2>) matvec<F16, 2, 1, 2>;
template [[host_name("matvec_divided_f16_2")]] kernel decltype(matvec<F16, 2, 2, 2>) matvec<F16, 2, 2, 2>;
template [[host_name("matvec_divided_f16_3")]] kernel decltype(matvec<F16, 2, 3, 2>) matvec<F16, 2, 3, 2>;
template [[host_name("matvec_divided_f16_4")]] kernel decltype(matvec<F16, 2, 4, 2>) matvec<F16, 2, 4, 2>;
template [[host_name("matvec_staged_f16_1")]] kernel decltype(matvec_staged<F16, 1, 1>) matvec_staged<F16, 1, 1>;
template [[host_name("matvec_staged_f16_2")]] kernel decltype(matvec_staged<F16, 2, 2>) matvec_staged<F16, 2, 2>;
template [[host_name("matvec_staged_f16_3")]] kernel decltype(matvec_staged<F16, 2, 3>) matvec_staged<F16, 2, 3>;
template [[host_name("matvec_staged_f16_4")]] kernel decltype(matvec_staged<F16, 2, 4>) matvec_staged<F16, 2, 4>;
template [[host_name("matmul_f16_8")]] kernel decltype(matmul<F16, 8>) matmul<F16, 8>;
template [[host_name("matmul_f16_16")]] kernel decltype(matmul<F16, 16>) matmul<F16, 16>;
template [[host_name("matmul_f16_32")]] kernel decltype(matmul<F16, 32>) matmul<F16, 32>;

// Every kernel that reads BF16 weights.
#include "embed.h"
#include "matmul.h"
#include "matvec_staged.h"
#include "weight_float.h"

template [[host_name("embed_bf16")]] kernel decltype(embed<BF16>) embed<BF16>;
template [[host_name("matvec_bf16_1")]] kernel decltype(matvec<BF16, 2, 1, 1>) matvec<BF16, 2, 1, 1>;
template [[host_name("matvec_bf16_2")]] kernel decltype(matvec<BF16, 2, 2, 1>) matvec<BF16, 2, 2, 1>;
template [[host_name("matvec_bf16_3")]] kernel decltype(matvec<BF16, 2, 3, 1>) matvec<BF16, 2, 3, 1>;
template [[host_name("matvec_bf16_4")]] kernel decltype(matvec<BF16, 2, 4, 1>) matvec<BF16, 2, 4, 1>;
template [[host_name("matvec_divided_bf16_1")]] kernel decltype(matvec<BF16, 2, 1, 2>) matvec<BF16, 2, 1, 2>;
template [[host_name("matvec_divided_bf16_2")]] kernel decltype(matvec<BF16, 2, 2, 2>) matvec<BF16, 2, 2, 2>;
template [[host_name("matvec_divided_bf16_3")]] kernel decltype(matvec<BF16, 2, 3, 2>) matvec<BF16, 2, 3, 2>;
template [[host_name("matvec_divided_bf16_4")]] kernel decltype(matvec<BF16, 2, 4, 2>) matvec<BF16, 2, 4, 2>;
template [[host_name("matvec_staged_bf16_1")]] kernel decltype(matvec_staged<BF16, 1, 1>) matvec_staged<BF16, 1, 1>;
template [[host_name("matvec_staged_bf16_2")]] kernel decltype(matvec_staged<BF16, 2, 2>) matvec_staged<BF16, 2, 2>;
template [[host_name("matvec_staged_bf16_3")]] kernel decltype(matvec_staged<BF16, 2, 3>) matvec_staged<BF16, 2, 3>;
template [[host_name("matvec_staged_bf16_4")]] kernel decltype(matvec_staged<BF16, 2, 4>) matvec_staged<BF16, 2, 4>;
template [[host_name("matmul_bf16_8")]] kernel decltype(matmul<BF16, 8>) matmul<BF16, 8>;
template [[host_name("matmul_bf16_16")]] kernel decltype(matmul<BF16, 16>) matmul<BF16, 16>;
template [[host_name("matmul_bf16_32")]] kernel decltype(matmul<BF16, 32>) matmul<BF16, 32>;

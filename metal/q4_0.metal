// Every kernel that reads Q4_0 weights.
#include "embed.h"
#include "matmul.h"
#include "matvec_staged.h"
#include "weight_32.h"

template [[host_name("embed_q4_0")]] kernel decltype(embed<Q4_0>) embed<Q4_0>;
template [[host_name("matvec_q4_0_1")]] kernel decltype(matvec<Q4_0, 2, 1, 1>) matvec<Q4_0, 2, 1, 1>;
template [[host_name("matvec_q4_0_2")]] kernel decltype(matvec<Q4_0, 2, 2, 1>) matvec<Q4_0, 2, 2, 1>;
template [[host_name("matvec_q4_0_3")]] kernel decltype(matvec<Q4_0, 2, 3, 1>) matvec<Q4_0, 2, 3, 1>;
template [[host_name("matvec_q4_0_4")]] kernel decltype(matvec<Q4_0, 2, 4, 1>) matvec<Q4_0, 2, 4, 1>;
template [[host_name("matvec_divided_q4_0_1")]] kernel decltype(matvec<Q4_0, 2, 1, 2>) matvec<Q4_0, 2, 1, 2>;
template [[host_name("matvec_divided_q4_0_2")]] kernel decltype(matvec<Q4_0, 2, 2, 2>) matvec<Q4_0, 2, 2, 2>;
template [[host_name("matvec_divided_q4_0_3")]] kernel decltype(matvec<Q4_0, 2, 3, 2>) matvec<Q4_0, 2, 3, 2>;
template [[host_name("matvec_divided_q4_0_4")]] kernel decltype(matvec<Q4_0, 2, 4, 2>) matvec<Q4_0, 2, 4, 2>;
template [[host_name("matvec_staged_q4_0_1")]] kernel decltype(matvec_staged<Q4_0, 1, 1>) matvec_staged<Q4_0, 1, 1>;
template [[host_name("matvec_staged_q4_0_2")]] kernel decltype(matvec_staged<Q4_0, 2, 2>) matvec_staged<Q4_0, 2, 2>;
template [[host_name("matvec_staged_q4_0_3")]] kernel decltype(matvec_staged<Q4_0, 2, 3>) matvec_staged<Q4_0, 2, 3>;
template [[host_name("matvec_staged_q4_0_4")]] kernel decltype(matvec_staged<Q4_0, 2, 4>) matvec_staged<Q4_0, 2, 4>;
template [[host_name("matmul_q4_0_8")]] kernel decltype(matmul<Q4_0, 8>) matmul<Q4_0, 8>;
template [[host_name("matmul_q4_0_16")]] kernel decltype(matmul<Q4_0, 16>) matmul<Q4_0, 16>;
template [[host_name("matmul_q4_0_32")]] kernel decltype(matmul<Q4_0, 32>) matmul<Q4_0, 32>;

// Every kernel that reads Q5_1 weights.
#include "embed.h"
#include "matmul.h"
#include "matvec_staged.h"
#include "weight_32.h"

template [[host_name("embed_q5_1")]] kernel decltype(embed<Q5_1>) embed<Q5_1>;
template [[host_name("matvec_q5_1_1")]] kernel decltype(matvec<Q5_1, 2, 1, 1>) matvec<Q5_1, 2, 1, 1>;
template [[host_name("matvec_q5_1_2")]] kernel decltype(matvec<Q5_1, 2, 2, 1>) matvec<Q5_1, 2, 2, 1>;
template [[host_name("matvec_q5_1_3")]] kernel decltype(matvec<Q5_1, 2, 3, 1>) matvec<Q5_1, 2, 3, 1>;
template [[host_name("matvec_q5_1_4")]] kernel decltype(matvec<Q5_1, 2, 4, 1>) matvec<Q5_1, 2, 4, 1>;
template [[host_name("matvec_divided_q5_1_1")]] kernel decltype(matvec<Q5_1, 2, 1, 2>) matvec<Q5_1, 2, 1, 2>;
template [[host_name("matvec_divided_q5_1_2")]] kernel decltype(matvec<Q5_1, 2, 2, 2>) matvec<Q5_1, 2, 2, 2>;
template [[host_name("matvec_divided_q5_1_3")]] kernel decltype(matvec<Q5_1, 2, 3, 2>) matvec<Q5_1, 2, 3, 2>;
template [[host_name("matvec_divided_q5_1_4")]] kernel decltype(matvec<Q5_1, 2, 4, 2>) matvec<Q5_1, 2, 4, 2>;
template [[host_name("matvec_staged_q5_1_1")]] kernel decltype(matvec_staged<Q5_1, 1, 1>) matvec_staged<Q5_1, 1, 1>;
template [[host_name("matvec_staged_q5_1_2")]] kernel decltype(matvec_staged<Q5_1, 2, 2>) matvec_staged<Q5_1, 2, 2>;
template [[host_name("matvec_staged_q5_1_3")]] kernel decltype(matvec_staged<Q5_1, 2, 3>) matvec_staged<Q5_1, 2, 3>;
template [[host_name("matvec_staged_q5_1_4")]] kernel decltype(matvec_staged<Q5_1, 2, 4>) matvec_staged<Q5_1, 2, 4>;
template [[host_name("matmul_q5_1_8")]] kernel decltype(matmul<Q5_1, 8>) matmul<Q5_1, 8>;
template [[host_name("matmul_q5_1_16")]] kernel decltype(matmul<Q5_1, 16>) matmul<Q5_1, 16>;
template [[host_name("matmul_q5_1_32")]] kernel decltype(matmul<Q5_1, 32>) matmul<Q5_1, 32>;

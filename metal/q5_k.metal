// Every kernel that reads Q5_K weights.
#include "embed.h"
#include "matmul.h"
#include "matvec_staged.h"
#include "weight_256.h"

template [[host_name("embed_q5_k")]] kernel decltype(embed<Q5_K>) embed<Q5_K>;
template [[host_name("matvec_q5_k_1")]] kernel decltype(matvec<Q5_K, 2, 1, 1>) matvec<Q5_K, 2, 1, 1>;
template [[host_name("matvec_q5_k_2")]] kernel decltype(matvec<Q5_K, 2, 2, 1>) matvec<Q5_K, 2, 2, 1>;
template [[host_name("matvec_q5_k_3")]] kernel decltype(matvec<Q5_K, 2, 3, 1>) matvec<Q5_K, 2, 3, 1>;
template [[host_name("matvec_q5_k_4")]] kernel decltype(matvec<Q5_K, 2, 4, 1>) matvec<Q5_K, 2, 4, 1>;
template [[host_name("matvec_divided_q5_k_1")]] kernel decltype(matvec<Q5_K, 2, 1, 2>) matvec<Q5_K, 2, 1, 2>;
template [[host_name("matvec_divided_q5_k_2")]] kernel decltype(matvec<Q5_K, 2, 2, 2>) matvec<Q5_K, 2, 2, 2>;
template [[host_name("matvec_divided_q5_k_3")]] kernel decltype(matvec<Q5_K, 2, 3, 2>) matvec<Q5_K, 2, 3, 2>;
template [[host_name("matvec_divided_q5_k_4")]] kernel decltype(matvec<Q5_K, 2, 4, 2>) matvec<Q5_K, 2, 4, 2>;
template [[host_name("matvec_staged_q5_k_1")]] kernel decltype(matvec_staged<Q5_K, 1, 1>) matvec_staged<Q5_K, 1, 1>;
template [[host_name("matvec_staged_q5_k_2")]] kernel decltype(matvec_staged<Q5_K, 2, 2>) matvec_staged<Q5_K, 2, 2>;
template [[host_name("matvec_staged_q5_k_3")]] kernel decltype(matvec_staged<Q5_K, 2, 3>) matvec_staged<Q5_K, 2, 3>;
template [[host_name("matvec_staged_q5_k_4")]] kernel decltype(matvec_staged<Q5_K, 2, 4>) matvec_staged<Q5_K, 2, 4>;
template [[host_name("matmul_q5_k_8")]] kernel decltype(matmul<Q5_K, 8>) matmul<Q5_K, 8>;
template [[host_name("matmul_q5_k_16")]] kernel decltype(matmul<Q5_K, 16>) matmul<Q5_K, 16>;
template [[host_name("matmul_q5_k_32")]] kernel decltype(matmul<Q5_K, 32>) matmul<Q5_K, 32>;

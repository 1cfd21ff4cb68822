// Every kernel that reads Q6_K weights.
#include "embed.h"
#include "matmul.h"
#include "matvec_staged.h"
#include "weight_256.h"

template [[host_name("embed_q6_k")]] kernel decltype(embed<Q6_K>) embed<Q6_K>;
template [[host_name("matvec_q6_k_1")]] kernel decltype(matvec<Q6_K, 2, 1, 1>) matvec<Q6_K, 2, 1, 1>;
template [[host_name("matvec_q6_k_2")]] kernel decltype(matvec<Q6_K, 2, 2, 1>) matvec<Q6_K, 2, 2, 1>;
template [[host_name("matvec_q6_k_3")]] kernel decltype(matvec<Q6_K, 2, 3, 1>) matvec<Q6_K, 2, 3, 1>;
template [[host_name("matvec_q6_k_4")]] kernel decltype(matvec<Q6_K, 2, 4, 1>) matvec<Q6_K, 2, 4, 1>;
template [[host_name("matvec_divided_q6_k_1")]] kernel decltype(matvec<Q6_K, 2, 1, 2>) matvec<Q6_K, 2, 1, 2>;
template [[host_name("matvec_divided_q6_k_2")]] kernel decltype(matvec<Q6_K, 2, 2, 2>) matvec<Q6_K, 2, 2, 2>;
template [[host_name("matvec_divided_q6_k_3")]] kernel decltype(matvec<Q6_K, 2, 3, 2>) matvec<Q6_K, 2, 3, 2>;
template [[host_name("matvec_divided_q6_k_4")]] kernel decltype(matvec<Q6_K, 2, 4, 2>) matvec<Q6_K, 2, 4, 2>;
template [[host_name("matvec_staged_q6_k_1")]] kernel decltype(matvec_staged<Q6_K, 1, 1>) matvec_staged<Q6_K, 1, 1>;
template [[host_name("matvec_staged_q6_k_2")]] kernel decltype(matvec_staged<Q6_K, 2, 2>) matvec_staged<Q6_K, 2, 2>;
template [[host_name("matvec_staged_q6_k_3")]] kernel decltype(matvec_staged<Q6_K, 2, 3>) matvec_staged<Q6_K, 2, 3>;
template [[host_name("matvec_staged_q6_k_4")]] kernel decltype(matvec_staged<Q6_K, 2, 4>) matvec_staged<Q6_K, 2, 4>;
template [[host_name("matmul_q6_k_8")]] kernel decltype(matmul<Q6_K, 8>) matmul<Q6_K, 8>;
template [[host_name("matmul_q6_k_16")]] kernel decltype(matmul<Q6_K, 16>) matmul<Q6_K, 16>;
template [[host_name("matmul_q6_k_32")]] kernel decltype(matmul<Q6_K, 32>) matmul<Q6_K, 32>;

// Every kernel that reads F32 weights.
#include "embed.h"
#include "matmul.h"
#include "matvec_staged.h"
#include "weight_float.h"

template [[host_name("embed_f32")]] kernel decltype(embed<F32>) embed<F32>;
template [[host_name("matvec_f32_1")]] kernel decltype(matvec<F32, 2, 1, 1>) matvec<F32, 2, 1, 1>;
template [[host_name("matvec_f32_2")]] kernel decltype(matvec<F32, 2, 2, 1>) matvec<F32, 2, 2, 1>;
template [[host_name("matvec_f32_3")]] kernel decltype(matvec<F32, 2, 3, 1>) matvec<F32, 2, 3, 1>;
template [[host_name("matvec_f32_4")]] kernel decltype(matvec<F32, 2, 4, 1>) matvec<F32, 2, 4, 1>;
template [[host_name("matvec_divided_f32_1")]] kernel decltype(matvec<F32, 2, 1, 2>) matvec<F32, 2, 1, 2>;
template [[host_name("matvec_divided_f32_2")]] kernel decltype(matvec<F32, 2, 2, 2>) matvec<F32, 2, 2, 2>;
template [[host_name("matvec_divided_f32_3")]] kernel decltype(matvec<F32, 2, 3, 2>) matvec<F32, 2, 3, 2>;
template [[host_name("matvec_divided_f32_4")]] kernel decltype(matvec<F32, 2, 4, 2>) matvec<F32, 2, 4, 2>;
template [[host_name("matvec_staged_f32_1")]] kernel decltype(matvec_staged<F32, 1, 1>) matvec_staged<F32, 1, 1>;
template [[host_name("matvec_staged_f32_2")]] kernel decltype(matvec_staged<F32, 2, 2>) matvec_staged<F32, 2, 2>;
template [[host_name("matvec_staged_f32_3")]] kernel decltype(matvec_staged<F32, 2, 3>) matvec_staged<F32, 2, 3>;
template [[host_name("matvec_staged_f32_4")]] kernel decltype(matvec_staged<F32, 2, 4>) matvec_staged<F32, 2, 4>;
template [[host_name("matmul_f32_8")]] kernel decltype(matmul<F32, 8>) matmul<F32, 8>;
template [[host_name("matmul_f32_16")]] kernel decltype(matmul<F32, 16>) matmul<F32, 16>;
template [[host_name("matmul_f32_32")]] kernel decltype(matmul<F32, 32>) matmul<F32, 32>;

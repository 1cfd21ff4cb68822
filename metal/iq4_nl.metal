// Every kernel that reads IQ4_NL weights.
#include "embed.h"
#include "matmul.h"
#include "matvec_staged.h"
#include "weight_32.h"

template [[host_name("embed_iq4_nl")]] kernel decltype(embed<IQ4_NL>) embed<IQ4_NL>;
template [[host_name("matvec_iq4_nl_1")]] kernel decltype(matvec<IQ4_NL, 2, 1, 1>) matvec<IQ4_NL, 2, 1, 1>;
template [[host_name("matvec_iq4_nl_2")]] kernel decltype(matvec<IQ4_NL, 2, 2, 1>) matvec<IQ4_NL, 2, 2, 1>;
template [[host_name("matvec_iq4_nl_3")]] kernel decltype(matvec<IQ4_NL, 2, 3, 1>) matvec<IQ4_NL, 2, 3, 1>;
template [[host_name("matvec_iq4_nl_4")]] kernel decltype(matvec<IQ4_NL, 2, 4, 1>) matvec<IQ4_NL, 2, 4, 1>;
template [[host_name("matvec_divided_iq4_nl_1")]] kernel decltype(matvec<IQ4_NL, 2, 1, 2>) matvec<IQ4_NL, 2, 1, 2>;
template [[host_name("matvec_divided_iq4_nl_2")]] kernel decltype(matvec<IQ4_NL, 2, 2, 2>) matvec<IQ4_NL, 2, 2, 2>;
template [[host_name("matvec_divided_iq4_nl_3")]] kernel decltype(matvec<IQ4_NL, 2, 3, 2>) matvec<IQ4_NL, 2, 3, 2>;
template [[host_name("matvec_divided_iq4_nl_4")]] kernel decltype(matvec<IQ4_NL, 2, 4, 2>) matvec<IQ4_NL, 2, 4, 2>;
template [[host_name("matvec_staged_iq4_nl_1")]] kernel decltype(matvec_staged<IQ4_NL, 1, 1>) matvec_staged<IQ4_NL, 1, 1>;
template [[host_name("matvec_staged_iq4_nl_2")]] kernel decltype(matvec_staged<IQ4_NL, 2, 2>) matvec_staged<IQ4_NL, 2, 2>;
template [[host_name("matvec_staged_iq4_nl_3")]] kernel decltype(matvec_staged<IQ4_NL, 2, 3>) matvec_staged<IQ4_NL, 2, 3>;
template [[host_name("matvec_staged_iq4_nl_4")]] kernel decltype(matvec_staged<IQ4_NL, 2, 4>) matvec_staged<IQ4_NL, 2, 4>;
template [[host_name("matmul_iq4_nl_8")]] kernel decltype(matmul<IQ4_NL, 8>) matmul<IQ4_NL, 8>;
template [[host_name("matmul_iq4_nl_16")]] kernel decltype(matmul<IQ4_NL, 16>) matmul<IQ4_NL, 16>;
template [[host_name("matmul_iq4_nl_32")]] kernel decltype(matmul<IQ4_NL, 32>) matmul<IQ4_NL, 32>;

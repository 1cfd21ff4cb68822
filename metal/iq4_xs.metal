// Every kernel that reads IQ4_XS weights.
#include "embed.h"
#include "matmul.h"
#include "matvec_staged.h"
#include "weight_256.h"

template [[host_name("embed_iq4_xs")]] kernel decltype(embed<IQ4_XS>) embed<IQ4_XS>;
template [[host_name("matvec_iq4_xs_1")]] kernel decltype(matvec<IQ4_XS, 2, 1, 1>) matvec<IQ4_XS, 2, 1, 1>;
template [[host_name("matvec_iq4_xs_2")]] kernel decltype(matvec<IQ4_XS, 2, 2, 1>) matvec<IQ4_XS, 2, 2, 1>;
template [[host_name("matvec_iq4_xs_3")]] kernel decltype(matvec<IQ4_XS, 2, 3, 1>) matvec<IQ4_XS, 2, 3, 1>;
template [[host_name("matvec_iq4_xs_4")]] kernel decltype(matvec<IQ4_XS, 2, 4, 1>) matvec<IQ4_XS, 2, 4, 1>;
template [[host_name("matvec_divided_iq4_xs_1")]] kernel decltype(matvec<IQ4_XS, 2, 1, 2>) matvec<IQ4_XS, 2, 1, 2>;
template [[host_name("matvec_divided_iq4_xs_2")]] kernel decltype(matvec<IQ4_XS, 2, 2, 2>) matvec<IQ4_XS, 2, 2, 2>;
template [[host_name("matvec_divided_iq4_xs_3")]] kernel decltype(matvec<IQ4_XS, 2, 3, 2>) matvec<IQ4_XS, 2, 3, 2>;
template [[host_name("matvec_divided_iq4_xs_4")]] kernel decltype(matvec<IQ4_XS, 2, 4, 2>) matvec<IQ4_XS, 2, 4, 2>;
template [[host_name("matvec_staged_iq4_xs_1")]] kernel decltype(matvec_staged<IQ4_XS, 1, 1>) matvec_staged<IQ4_XS, 1, 1>;
template [[host_name("matvec_staged_iq4_xs_2")]] kernel decltype(matvec_staged<IQ4_XS, 2, 2>) matvec_staged<IQ4_XS, 2, 2>;
template [[host_name("matvec_staged_iq4_xs_3")]] kernel decltype(matvec_staged<IQ4_XS, 2, 3>) matvec_staged<IQ4_XS, 2, 3>;
template [[host_name("matvec_staged_iq4_xs_4")]] kernel decltype(matvec_staged<IQ4_XS, 2, 4>) matvec_staged<IQ4_XS, 2, 4>;
template [[host_name("matmul_iq4_xs_8")]] kernel decltype(matmul<IQ4_XS, 8>) matmul<IQ4_XS, 8>;
template [[host_name("matmul_iq4_xs_16")]] kernel decltype(matmul<IQ4_XS, 16>) matmul<IQ4_XS, 16>;
template [[host_name("matmul_iq4_xs_32")]] kernel decltype(matmul<IQ4_XS, 32>) matmul<IQ4_XS, 32>;

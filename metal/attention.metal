// Attention for all types of planes, and for 1 to 16 query vectors a threadgroup.
#include "attention.h"

template [[host_name("attention_f16_1")]] kernel decltype(attention<half, 1>) attention<half, 1>;
template [[host_name("attention_f16_2")]] kernel decltype(attention<half, 2>) attention<half, 2>;
template [[host_name("attention_f16_4")]] kernel decltype(attention<half, 4>) attention<half, 4>;
template [[host_name("attention_f16_8")]] kernel decltype(attention<half, 8>) attention<half, 8>;
template [[host_name("attention_f16_16")]] kernel decltype(attention<half, 16>) attention<half, 16>;
template [[host_name("attention_f32_1")]] kernel decltype(attention<float, 1>) attention<float, 1>;
template [[host_name("attention_f32_2")]] kernel decltype(attention<float, 2>) attention<float, 2>;
template [[host_name("attention_f32_4")]] kernel decltype(attention<float, 4>) attention<float, 4>;
template [[host_name("attention_f32_8")]] kernel decltype(attention<float, 8>) attention<float, 8>;
template [[host_name("attention_f32_16")]] kernel decltype(attention<float, 16>) attention<float, 16>;
template [[host_name("attention_q8_0_1")]] kernel decltype(attention<char, 1>) attention<char, 1>;
template [[host_name("attention_q8_0_2")]] kernel decltype(attention<char, 2>) attention<char, 2>;
template [[host_name("attention_q8_0_4")]] kernel decltype(attention<char, 4>) attention<char, 4>;
template [[host_name("attention_q8_0_8")]] kernel decltype(attention<char, 8>) attention<char, 8>;
template [[host_name("attention_q8_0_16")]] kernel decltype(attention<char, 16>) attention<char, 16>;

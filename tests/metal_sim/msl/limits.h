// numeric_limits, the type traits that kernels use, and Metal's constants.
#pragma once

#define MAXFLOAT 3.40282346638528860e+38f
#define FLT_MAX 3.40282346638528860e+38f
#define FLT_MIN 1.17549435082228751e-38f
#define FLT_EPSILON 1.1920928955078125e-07f
#define HALF_MAX ((half)65504.0f)
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define M_PI_F 3.14159265358979323846f
#define M_1_PI_F 0.31830988618379067154f
#define M_2_SQRTPI_F 1.12837916709551257390f
#define M_SQRT2_F 1.41421356237309504880f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LN2_F 0.69314718055994530942f
#undef INFINITY
#define INFINITY __builtin_inff()
#undef NAN
#define NAN __builtin_nanf("")

namespace metal {

template <class T> struct numeric_limits;
template <> struct numeric_limits<float> {
    static constexpr float max() { return FLT_MAX; }
    static constexpr float min() { return FLT_MIN; }
    static constexpr float lowest() { return -FLT_MAX; }
    static constexpr float epsilon() { return FLT_EPSILON; }
    static constexpr float infinity() { return INFINITY; }
    static constexpr float quiet_NaN() { return NAN; }
};
template <> struct numeric_limits<half> {
    static constexpr half max() { return (half)65504.0f; }
    static constexpr half min() { return (half)6.103515625e-05f; }
    static constexpr half lowest() { return (half)-65504.0f; }
    static constexpr half epsilon() { return (half)9.765625e-04f; }
    static constexpr half infinity() { return (half)INFINITY; }
};
#define MSL_INTEGER(T, MIN, MAX)                     \
    template <> struct numeric_limits<T> {           \
        static constexpr T max() { return MAX; }     \
        static constexpr T min() { return MIN; }     \
        static constexpr T lowest() { return MIN; }  \
    };
MSL_INTEGER(int, INT_MIN, INT_MAX)
MSL_INTEGER(uint, 0, UINT_MAX)
MSL_INTEGER(short, -32768, 32767)
MSL_INTEGER(ushort, 0, 65535)
MSL_INTEGER(char, -128, 127)
MSL_INTEGER(uchar, 0, 255)
MSL_INTEGER(long, -9223372036854775807L - 1, 9223372036854775807L)
MSL_INTEGER(ulong, 0, 18446744073709551615UL)
#undef MSL_INTEGER

template <class T, T V> struct integral_constant {
    static constexpr T value = V;
};
typedef integral_constant<bool, true> true_type;
typedef integral_constant<bool, false> false_type;
template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <class A, class B> constexpr bool is_same_v = is_same<A, B>::value;
template <bool C, class A, class B> struct conditional {
    typedef A type;
};
template <class A, class B> struct conditional<false, A, B> {
    typedef B type;
};
template <bool C, class A, class B> using conditional_t = typename conditional<C, A, B>::type;
template <bool C, class A = void> struct enable_if {};
template <class A> struct enable_if<true, A> {
    typedef A type;
};
template <bool C, class A = void> using enable_if_t = typename enable_if<C, A>::type;

} // namespace metal

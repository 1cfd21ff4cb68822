// Scalar and vector types. Vectors are clang's ext_vector_type: swizzles and component-wise operators are its own.
#pragma once

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __INT8_TYPE__ int8_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __INT16_TYPE__ int16_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
typedef _Float16 half;
typedef __bf16 bfloat;

#define MSL_VECTORS(T)                                    \
    typedef T T##2 __attribute__((ext_vector_type(2)));   \
    typedef T T##3 __attribute__((ext_vector_type(3)));   \
    typedef T T##4 __attribute__((ext_vector_type(4)))
MSL_VECTORS(float);
MSL_VECTORS(half);
MSL_VECTORS(bfloat);
MSL_VECTORS(int);
MSL_VECTORS(uint);
MSL_VECTORS(short);
MSL_VECTORS(ushort);
MSL_VECTORS(char);
MSL_VECTORS(uchar);
MSL_VECTORS(long);
MSL_VECTORS(ulong);
#undef MSL_VECTORS

namespace msl {

template <class V> struct vector_traits {
    typedef V element;
    static constexpr int size = 1;
};
template <class T, int N> struct vector_traits<T __attribute__((ext_vector_type(N)))> {
    typedef T element;
    static constexpr int size = N;
};

template <class V, class A> inline void put(V &result, int &i, A a) {
    typedef typename vector_traits<V>::element E;
    if constexpr (vector_traits<A>::size == 1)
        result[i++] = static_cast<E>(a);
    else
        for (int k = 0; k < vector_traits<A>::size; ++k) result[i++] = static_cast<E>(a[k]);
}

// What the translator makes of `float4(...)`, `vec<T, 4>(...)` and `T(...)`.
template <class V, class... A> inline V make(A... a) {
    constexpr int n = vector_traits<V>::size;
    constexpr int given = (0 + ... + vector_traits<A>::size);
    if constexpr (n == 1) {
        static_assert(sizeof...(A) <= 1, "a scalar is made of one value");
        if constexpr (sizeof...(A) == 0)
            return V();
        else
            return static_cast<V>((a, ...));
    } else {
        typedef typename vector_traits<V>::element E;
        V result{};
        if constexpr (sizeof...(A) == 1 && given == 1) {
            for (int k = 0; k < n; ++k) result[k] = static_cast<E>((a, ...));
        } else if constexpr (sizeof...(A) > 0) {
            static_assert(given == n, "vector constructor: wrong number of components");
            int i = 0;
            (put(result, i, a), ...);
        }
        return result;
    }
}

template <class T> T value_of(T); // in decltype: a type without its const and its address space

// A value that stands out: every bit is set, so a float is a NaN.
template <class T> inline T poison() {
    T value;
    __builtin_memset(static_cast<void *>(&value), 0xFF, sizeof value);
    return value;
}

} // namespace msl

namespace metal {

template <class T, int N> using vec = T __attribute__((ext_vector_type(N)));

template <class D, class S> inline D as_type(S s) {
    static_assert(sizeof(D) == sizeof(S), "as_type: sizes differ");
    return __builtin_bit_cast(D, s);
}

// Vectors aligned like their element, as they lie in packed structures.
#ifdef MSL_LINT // clang's C++ has no member functions for objects in an address space
template <class T, int N> using packed_vec = vec<T, N>;
#else
template <class T, int N> struct packed_vec {
    T e[N];
    packed_vec() = default;
    packed_vec(vec<T, N> v) {
        for (int i = 0; i < N; ++i) e[i] = v[i];
    }
    operator vec<T, N>() const {
        vec<T, N> v{};
        for (int i = 0; i < N; ++i) v[i] = e[i];
        return v;
    }
    T &operator[](int i) { return e[i]; }
    const T &operator[](int i) const { return e[i]; }
};
#endif
#define MSL_PACKED(T)                      \
    typedef packed_vec<T, 2> packed_##T##2; \
    typedef packed_vec<T, 3> packed_##T##3; \
    typedef packed_vec<T, 4> packed_##T##4
MSL_PACKED(float);
MSL_PACKED(half);
MSL_PACKED(int);
MSL_PACKED(uint);
MSL_PACKED(short);
MSL_PACKED(ushort);
MSL_PACKED(char);
MSL_PACKED(uchar);
#undef MSL_PACKED

// Column-major, as in Metal: m[c] is a column.
template <class T, int C, int R> struct matrix {
    vec<T, R> columns[C];
    vec<T, R> &operator[](int i) { return columns[i]; }
    const vec<T, R> &operator[](int i) const { return columns[i]; }
};
typedef matrix<float, 2, 4> float2x4;
typedef matrix<float, 4, 4> float4x4;
typedef matrix<half, 2, 4> half2x4;
typedef matrix<half, 4, 4> half4x4;

} // namespace metal

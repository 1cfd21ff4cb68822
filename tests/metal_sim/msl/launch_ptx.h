// At the end of a file translated for PTX: one entry NAME_ptx for each kernel. Its one parameter is msl::Arguments:
// the address of what each buffer index is bound to (of the bytes too), and where each threadgroup argument begins in
// the dynamic shared memory. The block is the threadgroup, the grid is in threadgroups.
#pragma once
#pragma clang system_header

#include "../runtime/source.h"

extern __attribute__((address_space(3))) unsigned char msl_dynamic_memory[];

namespace msl {

struct Extent {
    uint x, y, z;
};
struct Arguments {
    void *buffers[31];
    uint threadgroup[31];
};
struct Parameter {
    Source source;
    int index;
    bool optional, writable;
};

#define MSL_REGISTER(NAME) static_cast<uint>(__nvvm_read_ptx_sreg_##NAME())
#define MSL_REGISTERS(NAME) {MSL_REGISTER(NAME##_x), MSL_REGISTER(NAME##_y), MSL_REGISTER(NAME##_z)}
inline Extent built_in(Source source) {
    const Extent in = MSL_REGISTERS(tid), at = MSL_REGISTERS(ctaid), size = MSL_REGISTERS(ntid), groups = MSL_REGISTERS(nctaid);
    const uint thread = in.x + size.x * (in.y + size.y * in.z);
    switch (source) {
    case Source::thread_position_in_grid: return {at.x * size.x + in.x, at.y * size.y + in.y, at.z * size.z + in.z};
    case Source::threadgroup_position_in_grid: return at;
    case Source::thread_position_in_threadgroup: return in;
    case Source::thread_index_in_threadgroup: return {thread, 0, 0};
    case Source::thread_index_in_simdgroup: return {thread % 32, 0, 0};
    case Source::simdgroup_index_in_threadgroup: return {thread / 32, 0, 0};
    case Source::threads_per_threadgroup:
    case Source::dispatch_threads_per_threadgroup: return size;
    case Source::threadgroups_per_grid: return groups;
    case Source::threads_per_grid: return {groups.x * size.x, groups.y * size.y, groups.z * size.z};
    case Source::simdgroups_per_threadgroup: return {(size.x * size.y * size.z + 31) / 32, 0, 0};
    case Source::threads_per_simdgroup:
    case Source::thread_execution_width: return {32, 0, 0};
    case Source::quadgroup_index_in_threadgroup: return {thread / 4, 0, 0};
    case Source::thread_index_in_quadgroup: return {thread % 4, 0, 0};
    case Source::buffer:
    case Source::threadgroup: break;
    }
    return {0, 0, 0};
}

// How an argument of type T is made from its source. Through the global address space, so that the compiler knows it.
typedef __attribute__((address_space(1))) void *Global;
template <class T> struct Argument {
    static T get(const Parameter &p, const Arguments &) {
        const Extent e = built_in(p.source);
        typedef typename vector_traits<T>::element E;
        if constexpr (vector_traits<T>::size == 1) {
            return static_cast<T>(e.x);
        } else {
            T v{};
            v[0] = static_cast<E>(e.x);
            v[1] = static_cast<E>(e.y);
            if constexpr (vector_traits<T>::size > 2) v[2] = static_cast<E>(e.z);
            return v;
        }
    }
};
template <class T> struct Argument<T *> {
    static T *get(const Parameter &p, const Arguments &a) {
        if (p.source == Source::threadgroup) return (T *)(msl_dynamic_memory + a.threadgroup[p.index]);
        return (T *)(Global)a.buffers[p.index];
    }
};
template <class T> struct Argument<T &> {
    static T &get(const Parameter &p, const Arguments &a) { return *Argument<T *>::get(p, a); }
};

template <int... I> struct Indices {};
template <int N, int... I> struct Count : Count<N - 1, N - 1, I...> {};
template <int... I> struct Count<0, I...> {
    typedef Indices<I...> type;
};
template <class... A, int... I>
inline void launch(void (*kernel)(A...), const Parameter *p, const Arguments &a, Indices<I...>) {
    kernel(Argument<A>::get(p[I], a)...);
}
template <class... A> inline void launch(void (*kernel)(A...), const Parameter *p, const Arguments &a) {
    launch(kernel, p, a, typename Count<sizeof...(A)>::type());
}

} // namespace msl

#define MSL_KERNEL(NAME, MAX_THREADS, FUNCTION, ...)                                      \
    extern "C" __attribute__((nvptx_kernel)) void NAME##_ptx(msl::Arguments arguments) {  \
        constexpr msl::Parameter parameters[] = {__VA_ARGS__};                            \
        msl::launch(&MSL_UNWRAP FUNCTION, parameters, arguments);                         \
    }
#define MSL_TABLE_BEGIN
#define MSL_TABLE_KERNEL(NAME)
#define MSL_CONSTANTS_BEGIN
#define MSL_TABLE_CONSTANT(NAME, INDEX, TYPE)
#define MSL_TABLE_END

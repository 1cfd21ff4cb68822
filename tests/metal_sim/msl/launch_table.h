// At the end of a translated file: makes a kernel, which is a C++ function with typed arguments, into an entry of the
// table in runtime/launch.h.
#pragma once
#pragma clang system_header

#include <cstddef>
#include <type_traits>
#include <utility>

#include "../runtime/launch.h"

namespace msl {

template <class T> MSL_UNCHECKED T from_extent(Extent e) {
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

MSL_UNCHECKED Extent built_in(Source source) {
    const Lane &lane = *current_lane;
    const Threadgroup &group = *current_group;
    const Extent at = group.position, full = group.full_size, in = lane.position;
    switch (source) {
    case Source::thread_position_in_grid: return {at.x * full.x + in.x, at.y * full.y + in.y, at.z * full.z + in.z};
    case Source::threadgroup_position_in_grid: return at;
    case Source::thread_position_in_threadgroup: return in;
    case Source::thread_index_in_threadgroup: return {lane.thread, 0, 0};
    case Source::thread_index_in_simdgroup: return {lane.lane, 0, 0};
    case Source::simdgroup_index_in_threadgroup: return {lane.simd_index, 0, 0};
    case Source::threads_per_threadgroup: return group.size;
    case Source::dispatch_threads_per_threadgroup: return full;
    case Source::threadgroups_per_grid: return group.groups;
    case Source::threads_per_grid: return group.threads;
    case Source::simdgroups_per_threadgroup: return {group.simd_groups, 0, 0};
    case Source::threads_per_simdgroup:
    case Source::thread_execution_width: return {simd_width, 0, 0};
    case Source::quadgroup_index_in_threadgroup: return {lane.thread / 4, 0, 0};
    case Source::thread_index_in_quadgroup: return {lane.lane % 4, 0, 0};
    case Source::buffer:
    case Source::threadgroup: break;
    }
    __builtin_trap();
}

template <class T> MSL_UNCHECKED T fetch(const Parameter &p, void *const *buffers, void *const *threadgroup) {
    if constexpr (std::is_pointer_v<T>)
        return static_cast<T>(p.source == Source::threadgroup ? threadgroup[p.index] : buffers[p.index]);
    else if constexpr (std::is_reference_v<T>)
        return *static_cast<std::remove_reference_t<T> *>(p.source == Source::threadgroup ? threadgroup[p.index]
                                                                                          : buffers[p.index]);
    else
        return from_extent<T>(built_in(p.source));
}

template <class T> constexpr uint32_t least_bytes() {
    if constexpr (std::is_pointer_v<T>)
        return sizeof(std::remove_pointer_t<T>);
    else if constexpr (std::is_reference_v<T>)
        return sizeof(std::remove_reference_t<T>);
    else
        return 0;
}
template <class T> constexpr uint32_t alignment_of() {
    if constexpr (std::is_pointer_v<T>)
        return alignof(std::remove_pointer_t<T>);
    else
        return alignof(std::remove_reference_t<T>);
}

template <auto F> struct Signature;
template <class... A, void (*F)(A...)> struct Signature<F> {
    static constexpr int count = sizeof...(A);
    static constexpr uint32_t bytes[count + 1] = {least_bytes<A>()..., 0};
    static constexpr uint32_t alignment[count + 1] = {alignment_of<A>()..., 0};
    template <size_t... I>
    MSL_NOT_INSTRUMENTED static void call(const Parameter *p, void *const *buffers, void *const *threadgroup,
                                          std::index_sequence<I...>) {
        F(fetch<A>(p[I], buffers, threadgroup)...);
    }
};

struct Described {
    Source source;
    int index;
    bool optional, writable;
};
template <int N> struct Parameters {
    Parameter list[N + 1];
};
template <auto F, int N> constexpr Parameters<N> describe(const Described (&d)[N]) {
    static_assert(N == Signature<F>::count);
    Parameters<N> p{};
    for (int i = 0; i < N; ++i)
        p.list[i] = {d[i].source,   d[i].index, d[i].optional, d[i].writable, Signature<F>::bytes[i],
                     Signature<F>::alignment[i]};
    return p;
}

} // namespace msl

#define MSL_KERNEL(NAME, MAX_THREADS, FUNCTION, ...)                                                          \
    namespace {                                                                                               \
    constexpr msl::Described msl_described_##NAME[] = {__VA_ARGS__};                                          \
    constexpr auto msl_parameters_##NAME = msl::describe<&MSL_UNWRAP FUNCTION>(msl_described_##NAME);         \
    MSL_NOT_INSTRUMENTED void msl_call_##NAME(void *const *buffers, void *const *threadgroup) {               \
        typedef msl::Signature<&MSL_UNWRAP FUNCTION> S;                                                       \
        S::call(msl_parameters_##NAME.list, buffers, threadgroup, std::make_index_sequence<S::count>());      \
    }                                                                                                         \
    constexpr msl::Kernel msl_kernel_##NAME = {#NAME, &msl_call_##NAME, msl_parameters_##NAME.list,           \
                                               msl::Signature<&MSL_UNWRAP FUNCTION>::count, MAX_THREADS};     \
    }
#define MSL_TABLE_BEGIN extern "C" const msl::Kernel msl_kernels[] = {
#define MSL_TABLE_KERNEL(NAME) msl_kernel_##NAME,
#define MSL_CONSTANTS_BEGIN                                 \
    {nullptr, nullptr, nullptr, 0, 0}                       \
    }                                                       \
    ;                                                       \
    extern "C" const msl::FunctionConstant msl_constants[] = {
#define MSL_TABLE_CONSTANT(NAME, INDEX, TYPE) {#NAME, &NAME##_value, &NAME##_is_set, INDEX, sizeof(NAME##_value), TYPE},
#define MSL_TABLE_END                        \
    {nullptr, nullptr, nullptr, 0, 0, 0}     \
    }                                        \
    ;

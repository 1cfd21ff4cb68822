// Relaxed atomics on device and threadgroup memory. Threadgroups may run on several host threads, so they are atomic
// here too; the checker is told of them, because an atomic and a plain access of one place can race.
#pragma once

namespace metal {

enum memory_order { memory_order_relaxed };

template <class T> struct atomic {
    T value;
};
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<bool> atomic_bool;
typedef atomic<float> atomic_float;

#define MSL_ATOMIC(NAME, EXPRESSION)                                                                           \
    template <class A, class V> MSL_UNCHECKED auto NAME(A *object, V operand, memory_order, MSL_HERE)          \
        ->decltype(::msl::value_of(object->value)) {                                                           \
        typedef decltype(::msl::value_of(object->value)) T;                                                    \
        ::msl::atomic_access(object, sizeof(T), site);                                                         \
        const T b = static_cast<T>(operand);                                                                   \
        T a = ::msl::atomic_load(&object->value);                                                              \
        while (!::msl::atomic_swap(&object->value, &a, static_cast<T>(EXPRESSION))) {}                         \
        return a;                                                                                              \
    }
MSL_ATOMIC(atomic_fetch_add_explicit, a + b)
MSL_ATOMIC(atomic_fetch_sub_explicit, a - b)
MSL_ATOMIC(atomic_fetch_max_explicit, a < b ? b : a)
MSL_ATOMIC(atomic_fetch_min_explicit, b < a ? b : a)
MSL_ATOMIC(atomic_fetch_or_explicit, a | b)
MSL_ATOMIC(atomic_fetch_and_explicit, a &b)
MSL_ATOMIC(atomic_fetch_xor_explicit, a ^ b)
MSL_ATOMIC(atomic_exchange_explicit, b)
#undef MSL_ATOMIC
template <class A, class V> MSL_UNCHECKED void atomic_store_explicit(A *object, V value, memory_order order, MSL_HERE) {
    atomic_exchange_explicit(object, value, order, site);
}
template <class A>
MSL_UNCHECKED auto atomic_load_explicit(A *object, memory_order, MSL_HERE) -> decltype(::msl::value_of(object->value)) {
    ::msl::atomic_access(object, sizeof(object->value), site);
    return ::msl::atomic_load(&object->value);
}
template <class A, class T>
MSL_UNCHECKED bool atomic_compare_exchange_weak_explicit(A *object, T *expected, T desired, memory_order, memory_order,
                                                         MSL_HERE) {
    ::msl::atomic_access(object, sizeof(T), site);
    return ::msl::atomic_swap(&object->value, expected, desired);
}

} // namespace metal

// What a SIMD-group can do, on fibers. machine_ptx.h does the same on a warp; simd.h and matrix.h give it Metal's names.
//
// Nothing here is instrumented: lanes pass values through the slots of their group, which are no memory of the kernel.
#pragma once

#include "../runtime/state.h"

#define MSL_NOT_INSTRUMENTED __attribute__((no_sanitize("thread")))
#define MSL_UNCHECKED MSL_NOT_INSTRUMENTED inline
#define MSL_HERE ::msl::Site site = ::msl::Site::here()

namespace msl {

MSL_UNCHECKED uint lane_index() { return current_lane->lane; }

enum Wait { wait_simd = 1, wait_simd_barrier = 2, wait_group_barrier = 3 };

template <class T> MSL_UNCHECKED const T &slot(const unsigned char (&slots)[simd_width][slot_bytes], int lane) {
    return *reinterpret_cast<const T *>(slots[lane]);
}

// Every lane gives a value; the first that resumes runs `compute(in, active, out)` for all; each takes its own.
template <class Out, class In, class Compute>
MSL_UNCHECKED Out collective(const In &value, Site site, Compute compute) {
    static_assert(sizeof(In) <= slot_bytes && sizeof(Out) <= slot_bytes, "a lane's slot is too small");
    Lane *me = current_lane;
    SimdGroup *group = me->group;
    const uint turn = me->turn;
    me->turn ^= 1;
    __builtin_memcpy(group->in[turn][me->lane], static_cast<const void *>(&value), sizeof(In));
    msl_wait(wait_simd, &site, 0);
    if (!group->computed[turn]) {
        group->computed[turn] = true;
        compute(group->in[turn], group->active[turn], group->out[turn]);
    }
    Out out;
    __builtin_memcpy(static_cast<void *>(&out), group->out[turn][me->lane], sizeof(Out));
    return out;
}

template <class T> MSL_UNCHECKED void set_slot(unsigned char (&slots)[simd_width][slot_bytes], int lane, const T &value) {
    __builtin_memcpy(slots[lane], static_cast<const void *>(&value), sizeof(T));
}

// The pairwise tree of a butterfly, over the lanes that take part.
template <class T, class Op> MSL_UNCHECKED T reduce(T value, Site site, Op op) {
    return collective<T>(value, site, [op](auto &in, uint active, auto &out) MSL_NOT_INSTRUMENTED {
        T t[simd_width];
        bool on[simd_width];
        for (int i = 0; i < simd_width; ++i) {
            const int from = current_group->reductions_shuffled ? current_group->reduction_order[i] : i;
            on[i] = active >> from & 1;
            if (on[i]) t[i] = slot<T>(in, from);
        }
        for (int half_width = simd_width / 2; half_width; half_width /= 2)
            for (int i = 0; i < half_width; ++i) {
                const int other = i + half_width;
                if (on[i] && on[other])
                    t[i] = op(t[i], t[other]);
                else if (on[other]) {
                    t[i] = t[other];
                    on[i] = true;
                }
            }
        for (int i = 0; i < simd_width; ++i) set_slot(out, i, t[0]);
    });
}

// `source`: the lane whose value is wanted. That of a lane that is not there is undefined in Metal.
template <class T> MSL_UNCHECKED T shuffle(T value, int source, Site site) {
    static_assert(sizeof(T) <= slot_bytes, "a lane's slot is too small");
    Lane *me = current_lane;
    SimdGroup *group = me->group;
    const uint turn = me->turn;
    me->turn ^= 1;
    set_slot(group->in[turn], static_cast<int>(me->lane), value);
    msl_wait(wait_simd, &site, 0);
    const bool defined = source >= 0 && source < simd_width && (group->active[turn] >> source & 1);
    return defined ? slot<T>(group->in[turn], source) : poison<T>();
}

template <class T, class Op> MSL_UNCHECKED T scan(T value, bool inclusive, Site site, T start, Op op) {
    return collective<T>(value, site, [=](auto &in, uint active, auto &out) MSL_NOT_INSTRUMENTED {
        T sum = start;
        for (int i = 0; i < simd_width; ++i) {
            if (!(active >> i & 1)) continue;
            const T next = op(sum, slot<T>(in, i));
            set_slot(out, i, inclusive ? next : sum);
            sum = next;
        }
    });
}

MSL_UNCHECKED uint ballot(bool value, Site site) {
    return collective<uint>(value, site, [](auto &in, uint active, auto &out) MSL_NOT_INSTRUMENTED {
        uint bits = 0;
        for (int i = 0; i < simd_width; ++i)
            if ((active >> i & 1) && slot<bool>(in, i)) bits |= 1u << i;
        for (int i = 0; i < simd_width; ++i) set_slot(out, i, bits);
    });
}

MSL_UNCHECKED uint active_lanes(Site site) { return ballot(true, site); }

MSL_UNCHECKED void group_barrier(uint flags, Site site) { msl_wait(wait_group_barrier, &site, flags); }
MSL_UNCHECKED void simd_barrier(uint flags, Site site) { msl_wait(wait_simd_barrier, &site, flags); }

MSL_UNCHECKED int matrix_place(uint lane, int k) { return current_group->matrix_place[2 * lane + k]; }

#ifdef MSL_LINT // only types are checked, and the builtins know no address spaces
template <class P> auto atomic_load(P *p) -> decltype(value_of(*p));
template <class P, class T> bool atomic_swap(P *p, T *expected, T desired);
template <class P> void atomic_access(P *p, uint bytes, Site site);
#else
template <class T> MSL_UNCHECKED T atomic_load(const T *p) {
    T value;
    __atomic_load(p, &value, __ATOMIC_RELAXED);
    return value;
}
template <class T> MSL_UNCHECKED bool atomic_swap(T *p, T *expected, T desired) {
    return __atomic_compare_exchange(p, expected, &desired, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
MSL_UNCHECKED void atomic_access(const void *p, uint bytes, Site site) { msl_atomic_access(p, bytes, &site); }
#endif

// Loads and stores of SIMD-group matrices pass no values, but every lane must take part.
MSL_UNCHECKED void converge(Site site) {
#ifndef MSL_FAST
    if (active_lanes(site) != 0xffffffffu) msl_stop_at("SIMD-group matrix operation without all 32 lanes", &site);
#else
    (void)site;
#endif
}

// D = A * B + C over 8x8 matrices whose elements lie two a lane.
template <class D, class A, class B, class C>
MSL_UNCHECKED metal::vec<D, 2> multiply_accumulate(metal::vec<A, 2> a, metal::vec<B, 2> b, metal::vec<C, 2> c, Site site) {
    struct Elements {
        metal::vec<A, 2> a;
        metal::vec<B, 2> b;
        metal::vec<C, 2> c;
    };
    return collective<metal::vec<D, 2>>(
        Elements{a, b, c}, site, [site](auto &in, uint active, auto &out) MSL_NOT_INSTRUMENTED {
            if (active != 0xffffffffu) msl_stop_at("SIMD-group matrix operation without all 32 lanes", &site);
            float fa[8][8], fb[8][8], fd[8][8];
            const unsigned char *place = current_group->matrix_place;
            for (int lane = 0; lane < simd_width; ++lane) {
                const Elements &e = slot<Elements>(in, lane);
                for (int k = 0; k < 2; ++k) {
                    const int at = place[2 * lane + k];
                    (&fa[0][0])[at] = static_cast<float>(e.a[k]);
                    (&fb[0][0])[at] = static_cast<float>(e.b[k]);
                    (&fd[0][0])[at] = static_cast<float>(e.c[k]);
                }
            }
            const bool shuffled = current_group->reductions_shuffled;
            for (int step = 0; step < 8; ++step) {
                const int k = shuffled ? (step * 5 + current_group->reduction_order[0]) % 8 : step;
                for (int r = 0; r < 8; ++r)
                    for (int col = 0; col < 8; ++col) fd[r][col] += fa[r][k] * fb[k][col];
            }
            for (int lane = 0; lane < simd_width; ++lane) {
                metal::vec<D, 2> d{};
                for (int k = 0; k < 2; ++k) d[k] = static_cast<D>((&fd[0][0])[place[2 * lane + k]]);
                set_slot(out, lane, d);
            }
        });
}

} // namespace msl

#define MSL_FUNCTION_CONSTANT(T, NAME, INDEX)                                                             \
    static T NAME##_value;                                                                                \
    static bool NAME##_is_set;                                                                            \
    static inline T NAME(::msl::Site site = ::msl::Site::here()) {                                        \
        if (!NAME##_is_set) ::msl::msl_stop_at("function constant " #NAME " is read but was not set", &site); \
        return NAME##_value;                                                                              \
    }
#define MSL_UNWRAP(...) __VA_ARGS__
#ifdef MSL_LINT
#define MSL_THREADGROUP(ID, NAME, T, ...) static __attribute__((address_space(3))) MSL_UNWRAP T NAME __VA_ARGS__
#else
#define MSL_THREADGROUP(ID, NAME, T, ...) auto &NAME = ::msl::threadgroup_variable<MSL_UNWRAP T __VA_ARGS__>(ID)
namespace msl {
template <class T> MSL_UNCHECKED T &threadgroup_variable(int id) {
    return *static_cast<T *>(msl_threadgroup_memory(id, sizeof(T)));
}
} // namespace msl
#endif

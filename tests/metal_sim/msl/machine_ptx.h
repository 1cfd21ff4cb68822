// What a SIMD-group can do, on a warp of an NVIDIA GPU: the counterpart of machine.h. A matrix is two elements a lane,
// in the layout that Apple's GPUs have.
#pragma once

#define MSL_NOT_INSTRUMENTED
#define MSL_UNCHECKED inline
#define MSL_HERE ::msl::Site site = {}
#define MSL_UNWRAP(...) __VA_ARGS__

namespace msl {

struct Site {};
constexpr int simd_width = 32;
constexpr uint all_lanes = 0xffffffffu;

inline uint lane_index() { return static_cast<uint>(__nvvm_read_ptx_sreg_laneid()); }

template <class T> inline T shuffle(T value, int source, Site) {
    constexpr int words = (sizeof(T) + 3) / 4;
    int w[words] = {};
    __builtin_memcpy(w, &value, sizeof(T));
    for (int i = 0; i < words; ++i) w[i] = __nvvm_shfl_sync_idx_i32(all_lanes, w[i], source & 31, 31);
    __builtin_memcpy(static_cast<void *>(&value), w, sizeof(T));
    return value;
}

template <class T, class Op> inline T reduce(T value, Site site, Op op) {
    for (int mask = simd_width / 2; mask; mask /= 2)
        value = op(value, shuffle(value, static_cast<int>(lane_index()) ^ mask, site));
    return value;
}

template <class T, class Op> inline T scan(T value, bool inclusive, Site site, T start, Op op) {
    const int lane = static_cast<int>(lane_index());
    T sum = value;
    for (int step = 1; step < simd_width; step *= 2) {
        const T below = shuffle(sum, lane - step, site);
        if (lane >= step) sum = op(below, sum);
    }
    if (inclusive) return sum;
    const T below = shuffle(sum, lane - 1, site);
    return lane ? below : start;
}

inline uint ballot(bool value, Site) { return static_cast<uint>(__nvvm_vote_ballot_sync(all_lanes, value)); }
inline uint active_lanes(Site) { return all_lanes; }
inline void converge(Site) {}
inline void group_barrier(uint, Site) { __syncthreads(); }
inline void simd_barrier(uint, Site) { __nvvm_bar_warp_sync(all_lanes); }

inline int matrix_place(uint lane, int k) {
    const int quad = static_cast<int>(lane) / 4;
    return ((quad & 4) + static_cast<int>(lane) / 2 % 4) * 8 + (quad & 2) * 2 + static_cast<int>(lane) % 2 * 2 + k;
}
inline int lane_of(int row, int column) {
    return (row & 4 ? 16 : 0) + (column & 4 ? 8 : 0) + (row & 3) * 2 + (column >> 1 & 1);
}

template <class D, class A, class B, class C>
inline metal::vec<D, 2> multiply_accumulate(metal::vec<A, 2> a, metal::vec<B, 2> b, metal::vec<C, 2> c, Site site) {
    const int place = matrix_place(lane_index(), 0), row = place / 8, column = place % 8;
    float sum[2] = {static_cast<float>(c[0]), static_cast<float>(c[1])};
    for (int k = 0; k < 8; ++k) {
        const metal::vec<A, 2> ak = shuffle(a, lane_of(row, k), site);
        const metal::vec<B, 2> bk = shuffle(b, lane_of(k, column), site);
        const float left = static_cast<float>(k & 1 ? ak[1] : ak[0]);
        sum[0] += left * static_cast<float>(bk[0]);
        sum[1] += left * static_cast<float>(bk[1]);
    }
    metal::vec<D, 2> d{};
    d[0] = static_cast<D>(sum[0]);
    d[1] = static_cast<D>(sum[1]);
    return d;
}

template <class T> inline T atomic_load(const T *p) {
    T value;
    __atomic_load(p, &value, __ATOMIC_RELAXED);
    return value;
}
template <class T> inline bool atomic_swap(T *p, T *expected, T desired) {
    return __atomic_compare_exchange(p, expected, &desired, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
inline void atomic_access(const void *, uint, Site) {}

} // namespace msl

// Symbols of the module, which the host sets before a launch: NAME_value, NAME_is_set.
#define MSL_FUNCTION_CONSTANT(T, NAME, INDEX)                                            \
    extern "C" __attribute__((address_space(4), used)) T NAME##_value = {};              \
    extern "C" __attribute__((address_space(4), used)) bool NAME##_is_set = false;       \
    static inline T NAME() { return *const_cast<volatile __attribute__((address_space(4))) T *>(&NAME##_value); }
#define MSL_THREADGROUP(ID, NAME, T, ...)                                                      \
    static __attribute__((address_space(3))) MSL_UNWRAP T NAME##_shared __VA_ARGS__;           \
    auto &NAME = *(MSL_UNWRAP T(*) __VA_ARGS__) & NAME##_shared

// Metal's SIMD-group and quad functions and its barriers.
#pragma once

namespace metal {

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
inline mem_flags operator|(mem_flags a, mem_flags b) {
    return static_cast<mem_flags>(static_cast<uint>(a) | static_cast<uint>(b));
}
inline void threadgroup_barrier(mem_flags flags, MSL_HERE) { ::msl::group_barrier(static_cast<uint>(flags), site); }
inline void simdgroup_barrier(mem_flags flags, MSL_HERE) { ::msl::simd_barrier(static_cast<uint>(flags), site); }

#define MSL_REDUCTION(NAME, EXPRESSION)                                                              \
    template <class T> inline T NAME(T value, MSL_HERE) {                                            \
        return ::msl::reduce(value, site, [](T a, T b) MSL_NOT_INSTRUMENTED { return static_cast<T>(EXPRESSION); }); \
    }
MSL_REDUCTION(simd_sum, a + b)
MSL_REDUCTION(simd_product, a *b)
MSL_REDUCTION(simd_max, a < b ? b : a)
MSL_REDUCTION(simd_min, b < a ? b : a)
MSL_REDUCTION(simd_and, a &b)
MSL_REDUCTION(simd_or, a | b)
MSL_REDUCTION(simd_xor, a ^ b)
#undef MSL_REDUCTION

template <class T> inline T simd_shuffle(T value, ushort lane, MSL_HERE) { return ::msl::shuffle(value, lane, site); }
template <class T> inline T simd_broadcast(T value, ushort lane, MSL_HERE) { return ::msl::shuffle(value, lane, site); }
template <class T> inline T simd_shuffle_xor(T value, ushort mask, MSL_HERE) {
    return ::msl::shuffle(value, static_cast<int>(::msl::lane_index() ^ mask), site);
}
template <class T> inline T simd_shuffle_down(T value, ushort delta, MSL_HERE) {
    return ::msl::shuffle(value, static_cast<int>(::msl::lane_index() + delta), site);
}
template <class T> inline T simd_shuffle_up(T value, ushort delta, MSL_HERE) {
    return ::msl::shuffle(value, static_cast<int>(::msl::lane_index()) - delta, site);
}
template <class T> inline T simd_shuffle_rotate_down(T value, ushort delta, MSL_HERE) {
    return ::msl::shuffle(value, static_cast<int>((::msl::lane_index() + delta) & 31), site);
}
template <class T> inline T simd_shuffle_rotate_up(T value, ushort delta, MSL_HERE) {
    return ::msl::shuffle(value, static_cast<int>((::msl::lane_index() - delta) & 31), site);
}
template <class T> inline T simd_prefix_inclusive_sum(T value, MSL_HERE) {
    return ::msl::scan(value, true, site, T(0), [](T a, T b) MSL_NOT_INSTRUMENTED { return static_cast<T>(a + b); });
}
template <class T> inline T simd_prefix_exclusive_sum(T value, MSL_HERE) {
    return ::msl::scan(value, false, site, T(0), [](T a, T b) MSL_NOT_INSTRUMENTED { return static_cast<T>(a + b); });
}

class simd_vote {
    ulong bits_;
    uint active_;

  public:
    simd_vote(ulong bits, uint active) : bits_(bits), active_(active) {}
    explicit operator ulong() const { return bits_; }
    bool any() const { return bits_ != 0; }
    bool all() const { return bits_ == active_; }
};
inline bool simd_any(bool value, MSL_HERE) { return ::msl::ballot(value, site) != 0; }
inline bool simd_all(bool value, MSL_HERE) { return ::msl::ballot(!value, site) == 0; }
inline simd_vote simd_ballot(bool value, MSL_HERE) {
    const uint bits = ::msl::ballot(value, site);
    return simd_vote(bits, ::msl::active_lanes(site));
}
inline bool simd_is_first(MSL_HERE) {
    return ::msl::lane_index() == static_cast<uint>(__builtin_ctz(::msl::active_lanes(site)));
}
template <class T> inline T simd_broadcast_first(T value, MSL_HERE) {
    const uint active = ::msl::active_lanes(site);
    return ::msl::shuffle(value, __builtin_ctz(active), site);
}

template <class T> inline T quad_shuffle_xor(T value, ushort mask, MSL_HERE) {
    return ::msl::shuffle(value, static_cast<int>(::msl::lane_index() ^ (mask & 3)), site);
}
template <class T> inline T quad_sum(T value, MSL_HERE) {
    value = value + quad_shuffle_xor(value, 1, site);
    return value + quad_shuffle_xor(value, 2, site);
}
template <class T> inline T quad_max(T value, MSL_HERE) {
    value = max(value, quad_shuffle_xor(value, 1, site));
    return max(value, quad_shuffle_xor(value, 2, site));
}

} // namespace metal
